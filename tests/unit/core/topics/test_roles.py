"""What a broker is for a partition by its state, and what follows from a change of that."""

import pytest

from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState
from broker.core.topics.roles import Here, Role, Step, next_step, role_of

EPOCH = 70  # of broker 1, which the tests are about
LED = PartitionState(1, 5, EPOCH, (1, 2, 3), (1, 2), 9)


def role(
    state: PartitionState,
    *,
    pending: tuple[int, ...] = (),
    may_serve: bool = True,
) -> Role | None:
    return role_of(state, (1, EPOCH), pending, may_serve=may_serve)


def leads(found: Role | None) -> bool | None:
    return None if found is None else found.leads


def test_the_elected_incarnation_of_a_broker_leads_while_it_is_not_fenced() -> None:
    assert role(LED) == Role(True, 5, 1, (1, 2, 3), (1, 2), 2)
    assert leads(role(LED, may_serve=False)) is False
    assert leads(role(LED._replace(broker_epoch=EPOCH - 1))) is False


def test_a_leader_that_hands_over_follows_once_its_successor_has_everything() -> None:
    found = role(LED._replace(successor=2))

    assert found is not None
    assert (found.leads, found.hands_over) == (False, True)


def test_other_replicas_follow_whoever_leads() -> None:
    for leader, epoch in ((2, 80), (NO_LEADER, NO_EPOCH)):
        found = role(LED._replace(leader=leader, broker_epoch=epoch, leader_epoch=6))
        assert found is not None
        assert (found.leads, found.epoch, found.hands_over) == (False, 6, False)


def test_the_only_replica_has_nothing_open_while_it_does_not_lead() -> None:
    """As if another process had its files: brokers may share a data directory."""
    alone = LED._replace(replicas=(1,), isr=(1,))

    assert leads(role(alone)) is True
    assert role(alone, may_serve=False) is None
    assert role(alone._replace(successor=2)) is None


def test_a_broker_that_is_no_replica_has_no_role() -> None:
    assert role(LED._replace(leader=2, replicas=(2, 3), isr=(2,))) is None


def test_a_log_waits_for_replicas_whose_addition_is_being_written() -> None:
    found = role(LED, pending=(3, 2, 4))

    assert found is not None
    assert (found.isr, found.committed) == ((1, 2, 3), 2)


def test_no_member_counts_for_min_insync_replicas_while_others_are_eligible() -> None:
    found = role(LED._replace(isr=(1,), elr=(2,)))

    assert found is not None
    assert found.committed == 0


@pytest.mark.parametrize(
    ("here", "now", "step"),
    [
        (Here.LED, True, Step.GIVE),
        (Here.LED, False, Step.END),
        (Here.LED, None, Step.END),
        (Here.FOLLOWED, True, Step.BEGIN),
        (Here.FOLLOWED, False, Step.GIVE),
        (Here.FOLLOWED, None, Step.END),
        (Here.NOTHING, True, Step.BEGIN),
        (Here.NOTHING, False, Step.BEGIN),
        (Here.NOTHING, None, Step.NOTHING),
    ],
)
def test_what_has_to_be_done_with_a_log(here: Here, now: bool | None, step: Step) -> None:
    assert next_step(here, None if now is None else Role(now, 5)) is step

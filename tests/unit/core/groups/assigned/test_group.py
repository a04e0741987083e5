"""Rules of an assigned group that the scenarios do not reach."""

from broker.core.coordination.machine import Moment
from broker.core.groups.assigned.group import AssignedGroup, Outcome
from broker.core.groups.assigned.images import AssignedImage
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
)
from broker.core.groups.records.classic import GroupRecord

NOW = Moment(0, 0)


def apply(group: AssignedGroup, outcome: Outcome) -> AssignedResponse:
    decision, response = outcome
    for record in decision.records:
        assert isinstance(record, GroupRecord)
        assert record.image is not None
        group.replay(record.image)
    return response


def group_of(*member_ids: str, partitions: int = 4, generation: int = 1) -> AssignedGroup:
    image = AssignedImage(AssignedProtocol.V1, "t", generation=generation)
    group = AssignedGroup("g", image, members_max=10)
    for each in member_ids:
        apply(
            group,
            group.join_to_assigned_group(
                AssignedJoin(AssignedProtocol.V1, "g", "t", each, partitions), NOW
            ),
        )
    return group


def test_a_commit_that_causes_a_rebalance_is_checked_against_the_new_assignment() -> None:
    group = group_of("a", "b")
    later = Moment(9_000, 9_000)
    apply(group, group.sync(AssignedCall(AssignedProtocol.V1, "g", "t", "b", 3, 4), later))
    # A caller that knows the generation which the end of the session brings, and is in it.
    call = AssignedCall(AssignedProtocol.V1, "g", "t", "b", 4, 4)

    response = apply(group, group.check_commit(AssignedCommit(call, 0, 1), Moment(11_000, 0)))

    assert (response.error, response.partitions) == (AssignedError.NONE, (0, 1, 2, 3))


def test_the_generation_wraps_to_the_first_after_the_last() -> None:
    group = group_of("a", generation=(1 << 31) - 2)

    apply(
        group,
        group.join_to_assigned_group(AssignedJoin(AssignedProtocol.V1, "g", "t", "b", 4), NOW),
    )

    assert group.image.generation == 1

"""Checks of a heartbeat that do not depend on the group."""

import pytest

from broker.core.groups.commands.consumer import ConsumerHeartbeat
from broker.core.groups.consumer.checks import check_epoch, check_heartbeat
from broker.core.groups.records.consumer import CurrentAssignment, Partitions
from broker.core.groups.settings import ConsumerSettings
from broker.model import limits
from broker.model.errors import ErrorCode, RequestError


def joining(*topic_names: str) -> ConsumerHeartbeat:
    return ConsumerHeartbeat("g", "m", 0, rebalance_timeout_ms=1, topic_names=topic_names, owned={})


def test_the_subscribed_topic_names_have_a_total_byte_limit() -> None:
    half = "t" * (limits.SUBSCRIBED_NAMES_BYTES_MAX // 2)
    check_heartbeat(joining(half, half), ConsumerSettings())

    with pytest.raises(RequestError, match="bytes") as refused:
        check_heartbeat(joining(half, half, "t"), ConsumerSettings())

    assert refused.value.code is ErrorCode.INVALID_REQUEST


ASSIGNED = {b"a": (0, 1), b"b": (0,)}


def heartbeat(epoch: int, owned: Partitions | None) -> ConsumerHeartbeat:
    return ConsumerHeartbeat("g", "m", epoch, owned=owned)


def is_fenced(epoch: int, owned: Partitions | None, previous_epoch: int = 4) -> bool:
    """Return whether a member at an epoch is fenced, given ASSIGNED at epoch 5."""
    current = CurrentAssignment(5, previous_epoch, assigned=ASSIGNED)
    try:
        check_epoch(current, heartbeat(epoch, owned))
    except RequestError as error:
        return error.code is ErrorCode.FENCED_MEMBER_EPOCH
    return False


@pytest.mark.parametrize("owned", [None, {}, ASSIGNED, {b"c": (9,)}])
def test_a_member_at_the_epoch_of_the_group_is_not_fenced(owned: Partitions | None) -> None:
    assert not is_fenced(5, owned)


@pytest.mark.parametrize("owned", [{}, {b"a": (1,)}, ASSIGNED])
def test_a_member_that_missed_one_response_owns_no_more_than_it_was_assigned(
    owned: Partitions,
) -> None:
    """KIP-848: it is at the previous epoch, and sends its request again."""
    assert not is_fenced(4, owned)


@pytest.mark.parametrize(
    "owned",
    [
        {b"a": (2,)},
        {b"a": (0, 1, 2), b"b": (0,)},
        {**ASSIGNED, b"c": (0,)},
        None,
    ],
)
def test_a_member_at_the_previous_epoch_with_other_partitions_is_fenced(
    owned: Partitions | None,
) -> None:
    assert is_fenced(4, owned)


@pytest.mark.parametrize("epoch", [3, 6])
def test_a_member_at_any_other_epoch_is_fenced(epoch: int) -> None:
    assert is_fenced(epoch, {})


def test_a_member_without_a_previous_epoch_cannot_use_it() -> None:
    assert not is_fenced(5, {}, previous_epoch=5)
    assert is_fenced(6, {}, previous_epoch=6)

"""OffsetCommit and OffsetFetch: the groups' offsets, which all protocols share.

RustLog's groups have no members; a commit to a group with live members of another protocol is
refused. The binary form may commit an offset of a topic that does not exist yet, as in the
original: it is used once the topic is created. The JSON form may not. Both refuse topic names,
offsets and groups that are invalid.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from broker.core.forwarding import check_coordinated, coordinator_to_ask
from broker.core.groups.commands.classic import NO_GENERATION, NO_MEMBER_ID
from broker.core.groups.commands.offsets import CommitRequest, FetchOffsetsRequest, OffsetToCommit
from broker.core.topics.rules import check_name
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import GROUP_READY_POLL_MS, GROUP_READY_WAIT_MS
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import Failure, RefusalError, reason, refusal
from broker.protocols.rustlog.forwarding import group_offset_elsewhere
from broker.protocols.rustlog.messages import Committed, GroupOffset, OffsetCommit, OffsetFetch

_AnswerT = TypeVar("_AnswerT")

_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_PARTITION_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1


async def commit(request: OffsetCommit, call: Call) -> Committed:
    """Commit an offset and answer when it is durable."""
    _check(request, call)
    offset = OffsetToCommit(request.topic, request.partition, request.offset)
    wanted = CommitRequest(request.group, NO_MEMBER_ID, None, NO_GENERATION, (offset,))
    groups = call.broker.groups
    try:
        answer = await _when_ready(
            call,
            lambda: check_coordinated(call.session, request.group),
            lambda: groups.commit_offsets(wanted),
            lambda answer: answer.errors[0],
        )
    except RequestError as error:
        raise refusal(Failure.COMMIT, error) from None
    [code] = answer.errors
    if code is not ErrorCode.NONE:
        raise RefusalError(Failure.COMMIT, reason=reason(code))
    call.lags.committed(request.topic, request.partition, request.group, request.offset)
    return Committed()


def _check(request: OffsetCommit, call: Call) -> None:
    topic = call.broker.topics.get(request.topic)
    try:
        if topic is None:
            check_name(request.topic)
    except RequestError as error:
        raise refusal(Failure.COMMIT, error) from None
    if request.partition > _PARTITION_MAX or request.offset > _OFFSET_MAX:
        raise RefusalError(Failure.COMMIT, reason="no partition or offset is so large")
    if call.form.is_json and (topic is None or not topic.has_partition(request.partition)):
        raise RefusalError(Failure.COMMIT, reason=reason(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


async def fetch(request: OffsetFetch, call: Call) -> GroupOffset:
    """Return the committed offset, whichever protocol committed it."""
    failure = Failure.GROUP_OFFSET
    try:
        check_coordinated(call.session, request.group)
    except RequestError as error:
        raise refusal(failure, error) from None
    found = await group_offset(call, request.group, request.topic, request.partition, failure)
    return GroupOffset(found)


async def group_offset(
    call: Call, group: str, topic: str, partition: int, failure: Failure
) -> int | None:
    """Return the committed offset, None without one; RefusalError has this `failure`."""
    if call.broker.topics.get(OFFSETS_TOPIC) is None:
        return None  # no offset was ever committed
    wanted = FetchOffsetsRequest(group, {topic: (partition,)})
    groups = call.broker.groups
    try:
        coordinator = coordinator_to_ask(call.session, group)
        if coordinator is not None:
            return await group_offset_elsewhere(call, coordinator, group, topic, partition, failure)
        answer = await _when_ready(
            call, lambda: None, lambda: groups.fetch_offsets(wanted), lambda answer: answer.error
        )
    except RequestError as error:
        raise refusal(failure, error) from None
    if answer.error is not ErrorCode.NONE:
        raise RefusalError(failure, reason=reason(answer.error))
    committed = answer.topics[topic][partition]
    return None if committed is None else committed.offset


async def _when_ready(
    call: Call,
    check: Callable[[], None],
    ask: Callable[[], Awaitable[_AnswerT]],
    error_of: Callable[[_AnswerT], ErrorCode],
) -> _AnswerT:
    """Ask again until the coordinator has loaded, because RustLog's clients do not retry.

    Return its last response after GROUP_READY_WAIT_MS, even if that is an error. `check` is called
    first each time, and raises if another broker is the coordinator.
    """
    clock = call.broker.clock
    deadline_ms = clock.monotonic_ms() + GROUP_READY_WAIT_MS
    while True:
        check()
        answer = await ask()
        if error_of(answer) not in _NOT_READY or clock.monotonic_ms() >= deadline_ms:
            return answer
        await asyncio.sleep(GROUP_READY_POLL_MS / 1000)

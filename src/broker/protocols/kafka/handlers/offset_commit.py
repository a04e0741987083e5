"""OffsetCommit, v0-10. v1 generation and member, commit timestamp; v2-4 retention time.

v3 throttle time; v5 no retention time (KIP-211); v6 leader epoch (KIP-320); v7 static members
(KIP-345); v8 flexible; v9 member epochs (KIP-848); v10 topic ids. v0, which Kafka stored in
ZooKeeper, is stored like the others.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.groups.commands.offsets import CommitRequest, CommitResponse
from broker.core.scheduling.eager import run_to_first_wait
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import RequestError
from broker.model.limits import (
    NAMES_READ_PER_STEP,
    OFFSETS_COMMITTED_PER_STEP,
    PARTITIONS_ANSWERED_PER_STEP,
)
from broker.protocols.kafka.api import Api, DeferrableResponse, Request, respond_with
from broker.protocols.kafka.offsets import Offsets
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_MEMBER_EPOCHS_SINCE = 9
_TOPIC_IDS_SINCE = 10
_BROKERS_RETENTION = -1


@run_to_first_wait
async def handle(
    request: "Request[bodies.OffsetCommitRequest]", session: Session
) -> "DeferrableResponse[bodies.OffsetCommitResponse]":
    """Commit offsets of existing partitions; the others get an error each.

    Many offsets are committed in steps, each of which commits a part of them. A topic that is
    deleted between two steps is unknown or committed. If a rebalance begins between two steps, the
    offsets before are committed and those after get its error.
    """
    wanted, groups = request.body["topics"], session.broker.groups
    try:
        access.check_group(session, Operation.READ, request.body["group_id"])
    except RequestError as error:
        return {"topics": await Offsets.refused(wanted, error)}
    command = _command(request)
    most = PARTITIONS_ANSWERED_PER_STEP
    is_long = len(wanted) > most or sum(len(topic["partitions"]) for topic in wanted) > most
    offsets = Offsets()
    reading = offsets.read(wanted, session, by_id=request.version >= _TOPIC_IDS_SINCE)
    if is_long:
        async for _ in in_steps(reading, most):
            pass
        committing = [
            groups.commit_offsets(command._replace(offsets=tuple(part)))
            async for part in in_parts(offsets.to_commit, OFFSETS_COMMITTED_PER_STEP)
        ]
        results = [await each for each in committing]  # they share a disk sync
        codes = (code for result in results for code in result.errors)
        async for _ in in_steps(offsets.answer(codes), NAMES_READ_PER_STEP):
            pass
        return {"topics": offsets.topics}
    for _ in reading:
        pass
    if not offsets.to_commit:
        return {"topics": offsets.topics}

    def finish(result: CommitResponse) -> "bodies.OffsetCommitResponse":
        for _ in offsets.answer(result.errors):
            pass
        return {"topics": offsets.topics}

    command = command._replace(offsets=tuple(offsets.to_commit))
    return respond_with(groups.commit_offsets(command), finish)


def _command(request: "Request[bodies.OffsetCommitRequest]") -> CommitRequest:
    """Return the command without its offsets."""
    body = request.body
    retention_ms = body["retention_time_ms"]
    return CommitRequest(
        group_id=body["group_id"],
        member_id=body["member_id"],
        instance_id=body["group_instance_id"],
        generation=body["generation_id_or_member_epoch"],
        offsets=(),
        retention_ms=None if retention_ms == _BROKERS_RETENTION else retention_ms,
        knows_epochs=request.version >= _MEMBER_EPOCHS_SINCE,
    )


API = Api(
    8,
    "OffsetCommit",
    range(11),
    handle,
    on_each(Operation.READ, ResourceType.GROUP, ResourceType.TOPIC),
)

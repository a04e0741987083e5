"""More partitions for a topic that exists: what may be asked for (CreatePartitions, KIP-195)."""

from collections.abc import Sequence
from typing import NamedTuple

from broker.model.errors import ErrorCode, RequestError


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have in all; who holds the new ones, None: anybody."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


def check_new_partitions(existing: int, new: NewPartitions, node_id: int) -> None:
    """Refuse what does not make a topic of so many partitions larger; RequestError says why."""
    if new.total <= existing:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic has {existing} partitions, {new.total} would not be an increase",
        )
    if new.assignments is None:
        return
    added = new.total - existing
    if len(new.assignments) != added:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions would be added, {len(new.assignments)} are assigned",
        )
    if any(list(replicas) != [node_id] for replicas in new.assignments):
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {node_id}")

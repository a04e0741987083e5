"""Brokers with an injected bug that breaks a rule of the disk, which the checks have to detect."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import crc32c
import pytest

from broker._native.log import seal
from broker.core.logs import partition
from broker.core.producer_ids import ProducerIds
from broker.core.topics import records as topic_records
from broker.core.topics import topics
from broker.model.identifiers import random_id
from broker.model.limits import PRODUCER_ID_BLOCK
from broker.model.log_results import AppendResult
from broker.storage import metadata
from broker.storage.recovery import log_settings
from broker.storage.recovery import partitions as recovery
from broker.storage.recovery.epochs import UncleanStarts
from tests.crash_states import check
from tests.crash_states.broker_run import MORE
from tests.crash_states.disk import Operation, State
from tests.crash_states.exploration import Bug
from tests.crash_states.finding import TRANSACTION
from tests.simulation.mutations import MUTATIONS

_PARTITION = re.compile(r"-[0-9]+(\.[^/]*)?$")
_SYNCS = {"sync_data", "begin_sync", "end_sync"}


class Planted(NamedTuple):
    """A bug, and which guarantees it may break: one of them is found broken."""

    bug: Bug
    findings: set[str]
    first_seed: int = 0  # rare ones are searched for in the scenarios where they show
    scenario: str = ""  # and in this one, if told so


def _without(is_dropped: Callable[[Operation], bool]) -> Bug:
    return Bug(
        operations=lambda all_of_them: [
            _nothing(each) if is_dropped(each) else each for each in all_of_them
        ]
    )


def _nothing(operation: Operation) -> Operation:
    """Return what replaces an operation that was skipped: acknowledgements keep their place."""
    return ("nothing", *operation[1:])


def _is_log_sync(operation: Operation) -> bool:
    return operation[0] in _SYNCS and operation[1].endswith(".log")


def _is_cut(operation: Operation) -> bool:
    return operation[0] == "truncate" and operation[1].endswith(".log")


def _sync_after_rename(operations: list[Operation]) -> list[Operation]:
    """Small files get their names before their bytes."""
    changed: list[Operation] = []
    held: list[Operation] = []
    for operation in operations:
        op, path, *_ = operation
        if op == "sync" and path.endswith(".tmp"):
            held.append((op, path.removesuffix(".tmp"), *operation[2:]))
            continue
        changed.append(operation)
        if op == "sync_folder":
            changed += held
            held = []
    return changed


def _close_without_sync(operations: list[Operation]) -> list[Operation]:
    """A file closed right after its sync was closed because it was idle."""
    following = [*operations[1:], None]
    dropped = {
        operation[2]
        for operation, after in zip(operations, following, strict=True)
        if operation[0] == "end_sync" and after is not None and after[:2] == ("close", operation[1])
    }
    return [
        _nothing(each) if each[0] in {"begin_sync", "end_sync"} and each[2] in dropped else each
        for each in operations
    ]


def _commits_late(operations: list[Operation]) -> list[Operation]:
    """Committed data is durable only with the next commit."""
    changed = []
    held: Operation | None = None
    for each in operations:
        if each[0] == "commit":
            changed.append(held or _nothing(each))
            held = each
        else:
            changed.append(each)
    return changed


def _is_sync_of_copy(operation: Operation) -> bool:
    return operation[0] == "sync" and "-future/" in operation[1]


def _renames_copies_early(operations: list[Operation]) -> list[Operation]:
    """The old folder's new name is durable later than that of the copy."""
    return [
        _nothing(each)
        if each[0] == "sync_folder" and before[0] == "rename" and before[4].endswith(b"-moved")
        else each
        for before, each in zip([("", "", 0, 0, b"", 0), *operations], operations, strict=False)
    ]


def _is_sync_of_names(operation: Operation) -> bool:
    """Return whether it syncs the data directory, which has the partition folders."""
    op, path, *_ = operation
    return op == "sync_folder" and not _PARTITION.search(path)


def _is_sync_of_other_names(operation: Operation) -> bool:
    """Return whether it syncs the other directory that has partition folders."""
    op, path, *_ = operation
    return op == "sync_folder" and path.endswith(f"/{MORE}")


def _with_fitting_checksums(state: State) -> State:
    """Recovery does not compare checksums."""
    return {
        path: _refitted(content) if content and path.endswith(".log") else content
        for path, content in state.items()
    }


def _refitted(content: bytes) -> bytes:
    fitted = bytearray(content)
    position = 0
    while position + 61 <= len(fitted):
        end = position + 12 + int.from_bytes(fitted[position + 8 : position + 12])
        if not position + 61 <= end <= len(fitted):
            break
        crc = crc32c.crc32c(bytes(fitted[position + 21 : end]))
        fitted[position + 17 : position + 21] = crc.to_bytes(4)
        position = end
    return bytes(fitted)


def _no_epoch() -> AbstractContextManager[object]:
    return patch.object(UncleanStarts, "begin", lambda *_, **__: None)


def _shows_what_is_not_durable() -> AbstractContextManager[object]:
    settings = log_settings.log_settings

    def never_waits(*arguments: Any) -> Any:
        return {**settings(*arguments), "is_group_commit": False}

    return patch.object(recovery, "log_settings", never_waits)


def _acknowledges_repeats_at_once() -> AbstractContextManager[object]:
    append = partition.append

    def hasty(log: Any, config: Any, batch: bytes, now_ms: int) -> AppendResult:
        is_repeated = log.has_batch(batch)
        appended = append(log, config, batch, now_ms)
        return appended._replace(end_offset=0) if is_repeated else appended

    return patch.object(partition, "append", hasty)


def _takes_what_came_meanwhile_for_synced() -> AbstractContextManager[object]:
    """The next completed sync acknowledges everything, also what was written after it began."""
    wait_durable = partition.wait_durable

    async def hasty(log: Any, end_offset: int) -> bool:
        return await wait_durable(log, min(end_offset, log.durable_end + 1))

    return patch.object(partition, "wait_durable", hasty)


def _gives_ids_before_they_are_reserved() -> AbstractContextManager[object]:
    async def reserve(self: Any) -> tuple[int, int]:
        found = await self._metadata.get(metadata.PRODUCER_ID_BLOCK)
        assert found is None
        return 0, PRODUCER_ID_BLOCK

    return patch.object(ProducerIds, "_reserve", reserve)


def _moves_the_recovery_point_too_far() -> AbstractContextManager[object]:
    def plan_checkpoint(self: Any) -> Any:
        for log in self._logs.values():
            self._offsets.note(log, log.log_end_offset)
        return self._offsets.take()

    return patch.object(recovery.Partitions, "plan_checkpoint", plan_checkpoint)


def _takes_damage_for_the_end() -> AbstractContextManager[object]:
    """Recovery does not know which segments were sealed."""
    return patch.object(seal, "sealed_offset", lambda _: 0)


def _makes_folders_before_the_commit() -> AbstractContextManager[object]:
    create = topics.Topics._create

    async def create_late(self: Any, new: Any) -> Any:
        plan, topic_id = self.plan(new), random_id()
        partitions = range(plan.partitions)
        await self._logs.open_topic(plan.name, topic_id, partitions, plan.config)
        with patch.object(topics, "random_id", lambda: topic_id):
            return await create(self, new)

    return patch.object(topics.Topics, "_create", create_late)


def _forgets_what_is_still_there() -> AbstractContextManager[object]:
    """The commit of a delete does not record which folders remain."""

    def forgotten(_name: str, topic_id: bytes, _partitions: int) -> metadata.Operation:
        return topic_records.forgotten(topic_id)

    return patch.object(topic_records, "remembered", forgotten)


def _takes_any_folder() -> AbstractContextManager[object]:
    """A folder belongs to a topic by its name alone; leftovers of a delete are not set aside."""
    return patch.multiple(
        "broker.storage.files.deletion.DeletedFolders",
        put_away=lambda *_, **__: None,
        sync=lambda _: None,
    )


@contextmanager
def _mutated(name: str) -> Iterator[None]:
    """A coordinator that is wrong in one of the ways known to the simulation."""
    with pytest.MonkeyPatch.context() as patched:
        MUTATIONS[name].apply(patched)
        yield


def _of_coordinators(name: str, *findings: str) -> Planted:
    return Planted(
        Bug(patched=partial(_mutated, name)),
        {TRANSACTION, *findings},
        first_seed=4,
        scenario="transactions",
    )


_ACKS = {check.LOST_ACK, check.LOST_READ, check.LOST_SYNCED}

PLANTED = {
    "drops the sync of another directory": Planted(
        _without(_is_sync_of_other_names),
        {check.LOST_ACK, check.LOST_SYNCED, check.BACK},
        1,
        "topics",
    ),
    "drops the syncs of a copy in another directory": Planted(
        _without(_is_sync_of_copy), {check.LOST_ACK, check.LOST_SYNCED, check.OFFLINE}, 1, "moves"
    ),
    "renames a copy before its log's old folder": Planted(
        Bug(operations=_renames_copies_early), {check.NOT_STARTED}, 1, "moves"
    ),
    "drops the sync of a log": Planted(_without(_is_log_sync), {check.LOST_ACK}),
    "renames before the sync": Planted(
        Bug(operations=_sync_after_rename), {check.BACK, check.OFFLINE, check.NOT_STARTED}
    ),
    "skips the CRC check": Planted(Bug(state=_with_fitting_checksums), {check.NEVER_SENT}),
    "forgets the zeroed cut": Planted(
        _without(_is_cut), {check.NEVER_SENT, check.OFFLINE, check.GAP}, 516, "tails"
    ),
    "forgets the epoch bump": Planted(Bug(patched=_no_epoch), {check.EPOCH}),
    "shows what is not durable": Planted(Bug(patched=_shows_what_is_not_durable), _ACKS),
    "acknowledges a duplicate before its original": Planted(
        Bug(patched=_acknowledges_repeats_at_once), {check.LOST_ACK}
    ),
    "takes for synced what came while a sync went on": Planted(
        Bug(patched=_takes_what_came_meanwhile_for_synced), {check.LOST_ACK}, 9
    ),
    "gives a producer id twice": Planted(
        Bug(patched=_gives_ids_before_they_are_reserved), {check.ID_TWICE}
    ),
    "moves the recovery point before the sync": Planted(
        Bug(patched=_moves_the_recovery_point_too_far), {check.LOST_SYNCED}, 4, "checkpoints"
    ),
    "takes damage for the end of the log": Planted(
        Bug(patched=_takes_damage_for_the_end), {check.LOST_ACK, check.LOST_SYNCED}, 8
    ),
    "closes a dirty descriptor": Planted(
        Bug(operations=_close_without_sync),
        {check.LOST_SYNCED, check.LOST_ACK, check.COMMIT_LOST},
    ),
    "answers for a topic before its commit": Planted(
        Bug(operations=_commits_late), {check.TOPIC_LOST, check.TOPIC_BACK}
    ),
    "makes a topic's folders before its commit": Planted(
        Bug(patched=_makes_folders_before_the_commit), {check.SET_ASIDE}
    ),
    "does not sync the names of folders": Planted(
        _without(_is_sync_of_names), {check.LOST_ACK, check.SET_ASIDE}
    ),
    "forgets which folders a delete leaves": Planted(
        Bug(patched=_forgets_what_is_still_there), {check.SET_ASIDE}
    ),
    "leaves a deleted topic's folders where they are": Planted(
        Bug(patched=_takes_any_folder), {check.SET_ASIDE}
    ),
    "decides a transaction before its data is synced": _of_coordinators(
        "the decision does not wait for the data"
    ),
    "takes a transaction for complete before its markers are": _of_coordinators(
        "completion does not wait for markers"
    ),
    "answers producers before it is durable": _of_coordinators(
        "answers to producers do not wait for the disk", check.COMMIT_LOST, check.ID_TWICE
    ),
    "forgets at a start what is decided": _of_coordinators("a load forgets what is decided"),
    "commits the offsets of aborted transactions": _of_coordinators(
        "offsets of aborted transactions count", check.COMMIT_LOST
    ),
}

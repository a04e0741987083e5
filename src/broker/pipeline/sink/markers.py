"""The markers of the sink: records of a compacted topic about plans and completed tasks.

    key     JSON: [query] of a plan, [query, task] of a task; compaction keeps the last of each
    value   JSON: {"version": 1, "batch": n, "tasks": n or null, "plan": hash}
            and of a task {…, "rows": n, "digest": hash}

All records of a query are in one partition. A plan is written before the first row of a batch,
outside of transactions; the first of several plans for one batch is valid. The record of a task is
written in the same transaction as its rows. Records are read up to the high watermark, without
waiting for the transactions of other tasks; the records of a transaction are used when its commit
marker is read.

         no plan for the batch ── plan written ── its rows and record in one transaction ── done
                │ an older batch's, or none            ▲ the same plan
                └── a later batch's, or another plan: MarkerMismatch, nothing is written
"""

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker import codec
from broker.codec.control_records import decode_marker, is_control, is_transactional
from broker.model.errors import MarkerMismatch
from broker.pipeline.sink.identity import MASTER, PLANNING, Batch

if TYPE_CHECKING:
    from typing_extensions import Buffer

_VERSION: Final = 1


class Done(NamedTuple):
    """A task that has written its rows.

    The digest does not depend on the order of the rows; see rows.Digest.
    """

    batch: Batch
    task: int
    rows: int
    digest: str


_Record = tuple[bytes, bytes]


def plan_record(batch: Batch) -> _Record:
    """Return key and value of the record that is written first for a batch."""
    return _key(batch.query), _value(batch)


def done_record(done: Done) -> _Record:
    """Return key and value of the record that is written last by a task."""
    value = _value(done.batch, rows=done.rows, digest=done.digest)
    return _key(done.batch.query, done.task), value


def _key(*parts: str | int) -> bytes:
    return json.dumps(parts).encode()


def _value(batch: Batch, **more: str | int) -> bytes:
    fields = {"version": _VERSION, "batch": batch.number, "tasks": batch.tasks, "plan": batch.plan}
    return json.dumps(fields | more).encode()


class QueryLog:
    """The state of one query, from the records of the marker topic.

    Attributes:
        plan: of the last batch that was started; None: no batch.
        done: the last batch that each task has written.
    """

    def __init__(self, query: str) -> None:
        """Create the state before the first record."""
        self.plan: Batch | None = None
        self.done: dict[int, Done] = {}
        self._query = query
        self._open: dict[int, list[_Record]] = {}  # by producer id

    def feed(self, data: "Buffer") -> None:
        """Apply whole batches, in the order of the log.

        Raises:
            CodecError: the batches are damaged.
            MarkerMismatch: a record is not one of those above.
        """
        view = memoryview(data)
        for header in codec.scan_headers(view):
            batch = view[header.position : header.position + header.size]
            if is_control(header):
                ended = self._open.pop(header.producer_id, [])
                marker = decode_marker(batch)
                if marker is not None and marker.is_committed:
                    self._apply(ended)
                continue
            found = [(each.key or b"", each.value or b"") for each in codec.records(batch)]
            if is_transactional(header):
                self._open.setdefault(header.producer_id, []).extend(found)
            else:
                self._apply(found)

    def _apply(self, found: list[_Record]) -> None:
        for key, value in found:
            try:
                query, *task = json.loads(key)
                if query == self._query:
                    self._put(task, json.loads(value))
            except (ValueError, TypeError, KeyError) as error:
                raise MarkerMismatch(
                    f"the marker topic has key {key!r} with value {value!r}, which is not a marker"
                    " of this version: use a topic only for markers (option markerTopic)"
                ) from error

    def _put(self, task: list[int], fields: dict[str, Any]) -> None:
        if fields["version"] != _VERSION:
            raise ValueError(fields["version"])
        batch = Batch(self._query, fields["batch"], fields["tasks"], fields["plan"])
        if task:
            self.done[task[0]] = Done(batch, task[0], fields["rows"], fields["digest"])
        elif self.plan is None or self.plan.number < batch.number:
            self.plan = batch  # the first plan of a batch is valid; writers of later ones read it

    def is_open(self, task: int) -> bool:
        """Return whether a record of the task is in a transaction that has not ended."""
        own = _key(self._query, task)
        return any(key == own for found in self._open.values() for key, _ in found)

    def is_begun(self, batch: Batch) -> bool:
        """Return whether the plan of the batch has been written.

        Raises:
            MarkerMismatch: another plan was written, or a later batch was started.
        """
        if self.plan is None or self.plan.number < batch.number:
            return False
        if self.plan.number > batch.number:
            raise MarkerMismatch(
                f"batch {batch.number} of {batch.query!r} is to be written, but batch"
                f" {self.plan.number} was started already: its checkpoint is older than what was"
                " written; continue with the newest, or start a new query with a new checkpoint"
            )
        if self.plan != batch:
            raise MarkerMismatch(
                f"batch {batch.number} of {batch.query!r} was started with"
                f" {_description(self.plan)}, now it has {_description(batch)}: its tasks would not"
                " have the same rows; run it again with the same tasks, columns, topic and"
                f" settings. The plan depends on the settings {', '.join(PLANNING)} and, if it is"
                f" local[N], {MASTER}"
            )
        return True

    def written(self, batch: Batch, task: int) -> Done | None:
        """Return what a task has written of a batch, or None if it has not written it yet.

        Raises:
            MarkerMismatch: it has written a later batch, or this one with another plan.
        """
        done = self.done.get(task)
        if done is None or done.batch.number < batch.number:
            return None
        if done.batch != batch:
            raise MarkerMismatch(
                f"task {task} is to write batch {batch.number} of {batch.query!r}"
                f" ({_description(batch)}), but has written batch {done.batch.number}"
                f" ({_description(done.batch)})"
            )
        return done


def _description(batch: Batch) -> str:
    tasks = "an unknown number of tasks" if batch.tasks is None else f"{batch.tasks} tasks"
    return f"{tasks}, plan {batch.plan}"

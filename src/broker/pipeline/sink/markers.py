"""What tasks have written, as records of a compacted topic.

    key     JSON [query] of a plan, [query, task] of a task: compaction keeps the last of each
    value   JSON {"version": 1, "batch": n, "tasks": n or null, "plan": hash}
            and of a task {…, "rows": n, "digest": hash}

All records of a query are in one partition. A plan is written before the first row of a batch, in
no transaction; of several for one batch the first counts. A task's record is written in the same
transaction as its rows. It is read without waiting for the transactions of other tasks: up to the
high watermark, and each transaction's records count when its marker says that it was committed.

         no plan for the batch ── plan written ── its rows and record in one transaction ── done
                │ an older batch's, or none            ▲ the same plan
                └── a later batch's, or another plan: MarkerMismatch, nothing is written

Source: spark.md section 5, mode A with its corrections.
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

    digest does not depend on the order of the rows; see rows.Digest.
    """

    batch: Batch
    task: int
    rows: int
    digest: str


_Record = tuple[bytes, bytes]


def plan_record(batch: Batch) -> _Record:
    """Return key and value of the record that a batch is begun with."""
    return _key(batch.query), _value(batch)


def done_record(done: Done) -> _Record:
    """Return key and value of the record that a task ends with."""
    value = _value(done.batch, rows=done.rows, digest=done.digest)
    return _key(done.batch.query, done.task), value


def _key(*parts: str | int) -> bytes:
    return json.dumps(parts).encode()


def _value(batch: Batch, **more: str | int) -> bytes:
    fields = {"version": _VERSION, "batch": batch.number, "tasks": batch.tasks, "plan": batch.plan}
    return json.dumps(fields | more).encode()


class QueryLog:
    """What the records of the marker topic say of one query.

    Attributes:
        plan: of the last batch that was begun; None: of none.
        done: the last batch that each task has written.
    """

    def __init__(self, query: str) -> None:
        """Begin before the first record."""
        self.plan: Batch | None = None
        self.done: dict[int, Done] = {}
        self._query = query
        self._open: dict[int, list[_Record]] = {}  # by producer id

    def feed(self, data: "Buffer") -> None:
        """Take whole batches, in the order of the log.

        Raises:
            CodecError: they are not such batches.
            MarkerMismatch: a record is none of those above.
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
                    f"the marker topic holds key {key!r} with value {value!r}, which is no marker"
                    " of this version: give the sink a topic of its own (option markerTopic)"
                ) from error

    def _put(self, task: list[int], fields: dict[str, Any]) -> None:
        if fields["version"] != _VERSION:
            raise ValueError(fields["version"])
        batch = Batch(self._query, fields["batch"], fields["tasks"], fields["plan"])
        if task:
            self.done[task[0]] = Done(batch, task[0], fields["rows"], fields["digest"])
        elif self.plan is None or self.plan.number < batch.number:
            self.plan = batch  # the first of a batch counts, whoever came second finds that out

    def is_open(self, task: int) -> bool:
        """Whether a record of a task's is there whose transaction has not ended yet."""
        own = _key(self._query, task)
        return any(key == own for found in self._open.values() for key, _ in found)

    def is_begun(self, batch: Batch) -> bool:
        """Whether a plan for the batch is there, and is this one.

        Raises:
            MarkerMismatch: there is one, and it is another; or a later batch has been begun.
        """
        if self.plan is None or self.plan.number < batch.number:
            return False
        if self.plan.number > batch.number:
            raise MarkerMismatch(
                f"batch {batch.number} of {batch.query!r} is to be written, but batch"
                f" {self.plan.number} was begun already: its checkpoint is older than what was"
                " written; go on with the newest, or start a new query with a new checkpoint"
            )
        if self.plan != batch:
            raise MarkerMismatch(
                f"batch {batch.number} of {batch.query!r} was begun with {_words(self.plan)}, now"
                f" it has {_words(batch)}: its tasks would not have the same rows; run it again"
                " with the tasks, columns, topic and settings of before. A plan is of the settings"
                f" {', '.join(PLANNING)} and, where it is local[N], {MASTER}"
            )
        return True

    def written(self, batch: Batch, task: int) -> Done | None:
        """Return what a task has written of a batch, or None: it has yet to.

        Raises:
            MarkerMismatch: it has written a later batch, or this one by another plan.
        """
        done = self.done.get(task)
        if done is None or done.batch.number < batch.number:
            return None
        if done.batch != batch:
            raise MarkerMismatch(
                f"task {task} is to write batch {batch.number} of {batch.query!r}"
                f" ({_words(batch)}), but has written batch {done.batch.number}"
                f" ({_words(done.batch)})"
            )
        return done


def _words(batch: Batch) -> str:
    tasks = "tasks nobody counted" if batch.tasks is None else f"{batch.tasks} tasks"
    return f"{tasks}, plan {batch.plan}"

"""One task of the sink: its rows to the brokers, in chunks.

While a chunk is on its way, a thread waits for the answer and this one makes the next.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple, Self

import pyarrow as pa

from broker import codec
from broker.client.metadata import Cluster
from broker.client.offsets import Partition
from broker.client.produce import Producer
from broker.client.transactions import Transactions, new_producer_id
from broker.model.clock import Clock, SystemClock
from broker.model.errors import MarkerMismatch, PeerError, PolylogError
from broker.model.limits import CLIENT_GIVE_UP_SECONDS, SINK_CHUNK_BYTES, SINK_PACE_MS
from broker.pipeline.sink.identity import Batch
from broker.pipeline.sink.marker_topic import MarkerTopic, prepare
from broker.pipeline.sink.markers import Done, done_record, plan_record
from broker.pipeline.sink.options import SinkOptions
from broker.pipeline.sink.rows import Chunk, Digest, Encoder, Partitioner, chunks


class Outcome(NamedTuple):
    """What has become of a task: how many rows it has, and whether they were there already."""

    rows: int
    was_done: bool


def write_at_least_once(
    options: SinkOptions, task: int, batches: Iterator[pa.RecordBatch]
) -> Outcome:
    """Write the rows of a task; if it is run again, again.

    Raises:
        SchemaMismatch, LimitExceeded: a row that cannot be written.
        RequestError, Unreachable: the broker.
    """
    rows = _chunks(options, batches)
    first = next(rows, None)
    if first is None:
        return Outcome(0, was_done=False)
    cluster = options.cluster()
    producer = Producer(cluster, new_producer_id(cluster))
    count = 0
    with _Sending(options, cluster, producer, task) as sending:
        for chunk in chain([first], rows):
            count += _count(chunk)
            sending.send(chunk)
    return Outcome(count, was_done=False)


def write_exactly_once(
    options: SinkOptions, batch: Batch, task: int, batches: Iterator[pa.RecordBatch]
) -> Outcome:
    """Write the rows of a task and its marker in one transaction, unless the marker is there.

    Raises:
        MarkerMismatch: what is written of this batch was planned in another way.
        SchemaMismatch, LimitExceeded: a row that cannot be written; none of the task is.
        RequestError, Unreachable: the broker.
    """
    if batch.tasks is not None and task >= batch.tasks:
        raise MarkerMismatch(
            f"this is task {task}, but option tasks says that a batch has {batch.tasks}: use"
            f" .repartition({batch.tasks}), or tell how many there are"
        )
    cluster = options.cluster()
    markers = MarkerTopic(cluster, options.marker_topic, batch.query)
    log = markers.read()
    log.is_begun(batch)
    rows = _chunks(options, batches)
    first = next(rows, None)
    if first is None:
        if log.is_open(task):  # an earlier attempt had rows: what has become of it?
            Transactions(cluster, f"{batch.query}-{task}", options.transaction_ms)
            log = markers.read_of(task)
        _check_same(log.written(batch, task), Digest())
        return Outcome(0, was_done=False)
    rows = chain([first], rows)
    # From here on an earlier attempt of this task can write no more, and its marker is there or
    # never will be.
    transactions = Transactions(cluster, f"{batch.query}-{task}", options.transaction_ms)
    log = markers.read_of(task)
    if not log.is_begun(batch):
        markers.write(plan_record(batch))
        if not markers.read().is_begun(batch):
            raise PeerError(
                f"{cluster}: a record of {markers.partition} was acknowledged, not kept"
            )
    done = log.written(batch, task)
    if done is not None:
        if batch.tasks is None:  # nothing but the rows can tell whether they are the same
            digest = Digest()
            for each in chain.from_iterable(rows):
                digest.add(each)
            _check_same(done, digest)
        return Outcome(done.rows, was_done=True)
    return _write_new(options, cluster, transactions, markers, batch, task, rows)


def _write_new(  # noqa: PLR0913, PLR0917 - all that write_exactly_once has found out
    options: SinkOptions,
    cluster: Cluster,
    transactions: Transactions,
    markers: MarkerTopic,
    batch: Batch,
    task: int,
    rows: Iterator[Chunk],
) -> Outcome:
    producer = Producer(cluster, transactions.producer, transactions.transactional_id)
    digest = Digest()
    try:
        with _Sending(options, cluster, producer, task, transactions) as sending:
            for chunk in rows:
                for each in chunk:
                    digest.add(each)
                sending.send(chunk)
        # The marker comes last: as long as it is open, readers of committed markers wait.
        done = Done(batch, task, digest.rows, digest.hexdigest())
        transactions.add([markers.partition])
        producer.send({markers.partition: _encoded(producer, markers.partition, done)})
        transactions.end(is_committed=True)
    except BaseException as error:
        _abort(transactions, error)
        raise
    return Outcome(digest.rows, was_done=False)


def _encoded(producer: Producer, partition: Partition, done: Done) -> list[bytes]:
    return codec.encode(
        [done_record(done)],
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.epoch,
        base_sequence=producer.sequences.take(partition, 1),
        is_transactional=True,
    )


def _abort(transactions: Transactions, error: BaseException) -> None:
    """End what is open; the next attempt would do it too, but readers wait until then."""
    try:
        transactions.end(is_committed=False)
    except PolylogError as failed:
        error.add_note(f"nor could its transaction be aborted: {failed}")


def _check_same(done: Done | None, digest: Digest) -> None:
    if done is not None and (done.rows, done.digest) != (digest.rows, digest.hexdigest()):
        raise MarkerMismatch(
            f"task {done.task} has written {done.rows} rows of batch {done.batch.number} of"
            f" {done.batch.query!r}, now it has {digest.rows} rows, or others: the batch was"
            " planned in another way; run it as before, and use .repartition(N) with option tasks=N"
            " where the source cannot promise the same tasks"
        )


class _Sending:
    """Chunks on their way; a context at whose end they have arrived."""

    def __init__(
        self,
        options: SinkOptions,
        cluster: Cluster,
        producer: Producer,
        task: int,
        transactions: Transactions | None = None,
    ) -> None:
        counts: dict[str, int] = {}

        def partitions_of(topic: str) -> int:
            if topic not in counts:
                counts[topic] = len(cluster.topics([topic])[topic].partitions)
            return counts[topic]

        self._producer = producer
        self._transactions = transactions
        self._partitioner = Partitioner(options.topic, partitions_of, task)
        self._encoder = Encoder(
            producer, compression=options.compression, batch_bytes_max=options.batch_bytes_max
        )
        self._piece_bytes = max(options.batch_bytes_max // 2, 1)
        self._pace = Pace(options.rows_per_second)
        self._thread = ThreadPoolExecutor(1, "polylog-sink")
        self._on_its_way: Future[object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._wait()
        finally:
            self._thread.shutdown()  # waits: what comes next must not overtake it

    def send(self, chunk: Chunk) -> None:
        """Send a chunk when the one before has arrived."""
        batches: dict[Partition, list[bytes]] = {}
        for piece in self._partitioner.pieces(chunk, self._piece_bytes):
            for part in self._partitioner.split(piece):
                batches.setdefault(part.partition, []).extend(self._encoder.encode(part))
        self._wait()
        if self._transactions is not None:
            self._transactions.add(list(batches))
        self._pace.spend(_count(chunk))
        self._on_its_way = self._thread.submit(self._producer.send, batches)

    def _wait(self) -> None:
        if self._on_its_way is not None:
            self._on_its_way.result()
            self._on_its_way = None


class Pace:
    """Keeps a task to so many rows a second."""

    def __init__(
        self,
        rows_per_second: int | None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin now; None is no limit."""
        self._rows_per_second = rows_per_second
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._start = self._clock.monotonic_ms()
        self._spent = 0

    def spend(self, rows: int) -> None:
        """Wait until the rows before these have had their time."""
        if self._rows_per_second is None:
            return
        due = self._start + self._spent * 1000 / self._rows_per_second
        self._spent += rows
        early = due - self._clock.monotonic_ms()
        if early > 0:
            self._sleep(early / 1000)


def _count(chunk: Chunk) -> int:
    return sum(each.num_rows for each in chunk)


def _chunks(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
    rows_max = None
    if options.rows_per_second is not None:
        rows_max = max(options.rows_per_second * SINK_PACE_MS // 1000, 1)
    return chunks(batches, bytes_max=SINK_CHUNK_BYTES, rows_max=rows_max)


def check_brokers(options: SinkOptions) -> None:
    """See before a job that its topics are there, and the markers' as it must be.

    Raises:
        ConfigError: the topic of the markers would forget some.
        RequestError: there is no such topic.
        Unreachable: no broker answers.
    """
    cluster = options.cluster(CLIENT_GIVE_UP_SECONDS * 1000)
    if options.topic is not None:
        cluster.topics([options.topic])
    if options.is_exactly_once:
        prepare(cluster, options.marker_topic)

"""One task of the sink: sends its rows to the brokers in chunks.

A thread sends a chunk and waits for the response while the task encodes the next one.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple, Self

import pyarrow as pa

from broker.client.metadata import Cluster, Partition
from broker.client.produce import Producer
from broker.client.transactions import Transactions, new_producer_id
from broker.model.clock import Clock, SystemClock
from broker.model.errors import MarkerMismatch, PeerError, PolylogError
from broker.model.limits import CLIENT_GIVE_UP_SECONDS
from broker.pipeline.limits import SINK_CHUNK_BYTES, SINK_PACE_MS
from broker.pipeline.sink.identity import Batch
from broker.pipeline.sink.marker_topic import MarkerTopic, prepare
from broker.pipeline.sink.markers import Done, done_record, plan_record
from broker.pipeline.sink.options import SinkOptions
from broker.pipeline.sink.rows import Chunk, Digest, Partitioner, chunks


class Outcome(NamedTuple):
    """The result of a task: its number of rows, and whether they had been written before."""

    rows: int
    was_done: bool


def write_at_least_once(
    options: SinkOptions, task: int, batches: Iterator[pa.RecordBatch]
) -> Outcome:
    """Write the rows of a task; a repeated task writes them again.

    Raises:
        SchemaMismatch, LimitExceeded: a row cannot be written.
        RequestError, Unreachable: errors of the broker.
    """
    rows = _chunks(options, batches)
    first = next(rows, None)
    if first is None:
        return Outcome(0, was_done=False)
    cluster = options.cluster()
    producer = Producer(cluster, new_producer_id(cluster))
    count = 0
    with _Sender(options, cluster, producer, task) as sender:
        for chunk in chain([first], rows):
            count += _count(chunk)
            sender.send(chunk)
    return Outcome(count, was_done=False)


def write_exactly_once(
    options: SinkOptions, batch: Batch, task: int, batches: Iterator[pa.RecordBatch]
) -> Outcome:
    """Write the rows of a task and its marker in one transaction, unless the marker exists.

    Raises:
        MarkerMismatch: the batch was written with another plan.
        SchemaMismatch, LimitExceeded: a row cannot be written; no row of the task is written.
        RequestError, Unreachable: errors of the broker.
    """
    if batch.tasks is not None and task >= batch.tasks:
        raise MarkerMismatch(
            f"this is task {task}, but option tasks says that a batch has {batch.tasks}: use"
            f" .repartition({batch.tasks}), or correct the option"
        )
    cluster = options.cluster()
    markers = MarkerTopic(cluster, options.marker_topic, batch.query)
    log = markers.read()
    log.is_begun(batch)
    rows = _chunks(options, batches)
    first = next(rows, None)
    if first is None:
        if log.is_open(task):  # an earlier attempt had rows: was it committed?
            Transactions(cluster, f"{batch.query}-{task}", options.transaction_ms)
            log = markers.read_of(task)
        _check_same(log.written(batch, task), Digest())
        return Outcome(0, was_done=False)
    rows = chain([first], rows)
    # From here on an earlier attempt of this task is fenced: its marker exists or will never exist.
    transactions = Transactions(cluster, f"{batch.query}-{task}", options.transaction_ms)
    log = markers.read_of(task)
    if not log.is_begun(batch):
        markers.write(plan_record(batch))
        if not markers.read().is_begun(batch):
            raise PeerError(
                f"{cluster}: a record of {markers.partition} was acknowledged but is not there"
            )
    done = log.written(batch, task)
    if done is not None:
        if batch.tasks is None:  # only the rows show whether they are the same
            digest = Digest()
            for each in chain.from_iterable(rows):
                digest.add(each)
            _check_same(done, digest)
        return Outcome(done.rows, was_done=True)
    return _write_new(options, cluster, transactions, markers, batch, task, rows)


def _write_new(  # noqa: PLR0913, PLR0917 - the state of write_exactly_once
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
        with _Sender(options, cluster, producer, task, transactions) as sender:
            for chunk in rows:
                for each in chunk:
                    digest.add(each)
                sender.send(chunk)
        # The marker is written last: until the commit it delays read_committed consumers.
        done = Done(batch, task, digest.rows, digest.hexdigest())
        transactions.add([markers.partition])
        record = producer.encode(markers.partition, [done_record(done)])
        producer.send({markers.partition: record})
        transactions.end(is_committed=True)
    except BaseException as error:
        try:  # abort at once: until the next attempt does it, readers would wait
            transactions.end(is_committed=False)
        except PolylogError as failed:
            error.add_note(f"its transaction could not be aborted: {failed}")
        raise
    return Outcome(digest.rows, was_done=False)


def _check_same(done: Done | None, digest: Digest) -> None:
    if done is not None and (done.rows, done.digest) != (digest.rows, digest.hexdigest()):
        raise MarkerMismatch(
            f"task {done.task} has written {done.rows} rows of batch {done.batch.number} of"
            f" {done.batch.query!r}, now it has {digest.rows} or different rows: the batch has"
            " another plan; run it as before, and use .repartition(N) with option tasks=N if the"
            " source may divide the rows differently"
        )


class _Sender:
    """Sends chunks in a thread; at the end of the context all have been acknowledged."""

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
        self._compression = options.compression
        self._batch_bytes_max = options.batch_bytes_max
        self._rate_limiter = RateLimiter(options.rows_per_second)
        self._thread = ThreadPoolExecutor(1, "polylog-sink")
        self._in_flight: Future[object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._wait()
        finally:
            self._thread.shutdown()  # waits: later requests must not overtake the chunk

    def send(self, chunk: Chunk) -> None:
        """Send a chunk after the previous one was acknowledged."""
        batches: dict[Partition, list[bytes]] = {}
        for piece in self._partitioner.pieces(chunk, max(self._batch_bytes_max // 2, 1)):
            for partition, rows in self._partitioner.split(piece):
                batches.setdefault(partition, []).extend(
                    self._producer.encode(
                        partition,
                        rows,
                        compression=self._compression,
                        batch_bytes_max=self._batch_bytes_max,
                    )
                )
        self._wait()
        if self._transactions is not None:
            self._transactions.add(list(batches))
        self._rate_limiter.spend(_count(chunk))
        self._in_flight = self._thread.submit(self._producer.send, batches)

    def _wait(self) -> None:
        if self._in_flight is not None:
            self._in_flight.result()
            self._in_flight = None


class RateLimiter:
    """Limits the rows per second of a task."""

    def __init__(
        self,
        rows_per_second: int | None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start now; None is no limit."""
        self._rows_per_second = rows_per_second
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._start = self._clock.monotonic_ms()
        self._rows_sent = 0

    def spend(self, rows: int) -> None:
        """Wait until the rows before these are within the rate."""
        if self._rows_per_second is None:
            return
        due = self._start + self._rows_sent * 1000 / self._rows_per_second
        self._rows_sent += rows
        wait_ms = due - self._clock.monotonic_ms()
        if wait_ms > 0:
            self._sleep(wait_ms / 1000)


def _count(chunk: Chunk) -> int:
    return sum(each.num_rows for each in chunk)


def _chunks(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
    rows_max = None
    if options.rows_per_second is not None:
        rows_max = max(options.rows_per_second * SINK_PACE_MS // 1000, 1)
    return chunks(batches, bytes_max=SINK_CHUNK_BYTES, rows_max=rows_max)


def check_brokers(options: SinkOptions) -> None:
    """Check before a job that its topic exists, and prepare the marker topic.

    Raises:
        ConfigError: the cleanup policy of the marker topic would delete markers.
        RequestError: there is no such topic.
        Unreachable: no broker answers.
    """
    cluster = options.cluster(CLIENT_GIVE_UP_SECONDS * 1000)
    if options.topic is not None:
        cluster.topics([options.topic])
    if options.is_exactly_once:
        prepare(cluster, options.marker_topic)

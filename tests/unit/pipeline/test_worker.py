"""How tasks tune the Spark worker that runs them."""

import gc
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import copy
from itertools import count
from pathlib import Path
from platform import libc_ver
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from broker.pipeline import worker
from broker.pipeline.segments import reader as files
from broker.pipeline.sink import writer
from broker.pipeline.sink.writer import Sink
from broker.pipeline.source import batch, stream
from broker.pipeline.source.polylog import PolylogDataSource
from broker.pipeline.source.table import with_options
from tests.support.segment_files import write_ascending

_PIECE = bytes(9000)
_UNACKED = struct.Struct("=24xI")  # of Linux's struct tcp_info: unacknowledged segments


class InTask:
    """The interface of Spark's tasks."""

    @classmethod
    def get(cls) -> "InTask":
        return cls()

    @staticmethod
    def partitionId() -> int:  # noqa: N802 - Spark's name
        return 0


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A new worker; returns how often existing objects were frozen."""
    calls: list[int] = []
    monkeypatch.setattr(worker, "_TASKS", count())
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(1))
    monkeypatch.setattr(worker, "keep_memory", lambda: None)  # it applies to the whole process
    return calls


def test_the_second_task_of_a_worker_freezes_existing_objects_out_of_collections(
    frozen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "TaskContext", InTask)
    counts = []
    for _ in range(4):
        worker.begin_task()
        counts.append(len(frozen))

    assert counts == [0, 1, 1, 1]


def test_outside_a_worker_garbage_collection_is_unchanged(frozen: list[int]) -> None:
    for _ in range(4):
        worker.begin_task()

    assert not frozen


_FREES = """
from resource import RUSAGE_SELF, getrusage
from broker.pipeline.worker import keep_memory

keep_memory()
for turn in range(4):
    before = getrusage(RUSAGE_SELF).ru_minflt
    blocks = [b"x" * (8 << 20) for _ in range(4)]
    del blocks
    print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_memory_freed_by_a_worker_is_kept_for_reuse() -> None:
    found = subprocess.run([sys.executable, "-c", _FREES], check=True, capture_output=True)
    first, *others = map(int, found.stdout.split())

    assert max(others) < first / 2  # with pages of 2 MiB there are few of both


class Code(worker.TaskCode):
    """What a task is made of."""

    def __init__(self) -> None:
        """Keep something that must arrive."""
        self.what = "to do"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return a connection on which each side has answered the other, as Spark's have."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        spark = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
    with spark, ours:
        for _ in range(40):
            spark.sendall(_PIECE)
            _take(ours)
            ours.sendall(_PIECE)
            _take(spark)
        yield spark, ours


def _take(end: socket.socket) -> None:
    assert len(end.recv(len(_PIECE), socket.MSG_WAITALL)) == len(_PIECE)


def _unacknowledged(end: socket.socket) -> int:
    [count] = _UNACKED.unpack_from(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))
    return int(count)


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_QUICKACK is Linux's")
def test_arrived_code_is_acknowledged_at_once_so_that_its_input_may_follow(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    spark, ours = ends
    code = Code()
    spark.sendall(_PIECE)
    _take(ours)
    arrived = copy(code)  # as pickle makes it

    assert _unacknowledged(spark) == 0
    assert arrived.what == "to do"


def test_tasks_of_every_read_and_write_acknowledge_their_code() -> None:
    assert issubclass(PolylogDataSource, worker.TaskCode)
    assert issubclass(Sink, worker.TaskCode)


def test_connections_of_other_kinds_are_not_changed() -> None:
    one, other = socket.socketpair()
    with one, other:
        worker.acknowledge()

        one.send(b"still open")
        assert other.recv(99) == b"still open"


SCHEMA = StructType([StructField("value", BinaryType())])
BROKER = {"kafka.bootstrap.servers": "127.0.0.1:1"}
READ = BROKER | {"subscribe": "t"}
Given = dict[str, str]


def sink_of(given: Given) -> Sink:
    return Sink(given | BROKER | {"topic": "t"}, SCHEMA, overwrites=False, is_stream=False)


def source_of_a_table(given: Given) -> PolylogDataSource:
    """A source whose options arrive with the columns."""
    source = PolylogDataSource({})
    assert not source.tunes_worker
    source.reader(with_options("value binary", READ | given))
    return source


@pytest.mark.parametrize(
    "code",
    [
        lambda given: PolylogDataSource(READ | given),
        lambda given: PolylogDataSource({"segments": "nowhere"} | given),
        source_of_a_table,
        sink_of,
    ],
    ids=["source", "segments", "table", "sink"],
)
@pytest.mark.parametrize(("given", "is_tuned"), [({}, True), ({"tuneworkers": "False"}, False)])
def test_code_acknowledges_its_arrival_unless_worker_tuning_is_off(
    monkeypatch: pytest.MonkeyPatch,
    code: Callable[[Given], worker.TaskCode],
    given: Given,
    is_tuned: bool,
) -> None:
    shipped = code(given)
    calls: list[int] = []
    monkeypatch.setattr(worker, "acknowledge", lambda: calls.append(1))

    copy(shipped)

    assert bool(calls) == is_tuned


def read_topics(given: Given, _: Path) -> Iterator[Any]:
    for reader in (
        PolylogDataSource(READ | given).reader(SCHEMA),
        PolylogDataSource(READ | given).streamReader(SCHEMA),
    ):
        yield from reader.read(InputPartition(()))


def read_files(given: Given, folder: Path) -> Iterator[Any]:
    reader = PolylogDataSource({"segments": str(folder)} | given).reader(SCHEMA)
    yield from reader.read(reader.partitions()[0])


def write_rows(given: Given, _: Path) -> Iterator[Any]:
    sink_of(given).write(iter(()))
    yield from ()


@pytest.mark.parametrize(("task", "count"), [(read_topics, 2), (read_files, 1), (write_rows, 1)])
@pytest.mark.parametrize(("given", "is_tuned"), [({}, True), ({"tuneWorkers": "false"}, False)])
def test_a_task_keeps_the_workers_memory_unless_worker_tuning_is_off(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    task: Callable[[Given, Path], Iterator[Any]],
    count: int,
    given: Given,
    is_tuned: bool,
) -> None:
    write_ascending(tmp_path)
    calls: list[int] = []
    for module in (batch, stream, files, writer):
        monkeypatch.setattr(module, "begin_task", lambda: calls.append(1))
    monkeypatch.setattr(writer, "TaskContext", InTask)

    for _ in task(given, tmp_path):
        pass

    assert len(calls) == (count if is_tuned else 0)

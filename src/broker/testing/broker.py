"""A broker in a process of its own, for tests."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from broker import codec
from broker.client.admin import create_topic
from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster
from broker.client.offsets import EARLIEST, LATEST, committed_offsets, list_offsets
from broker.client.pool import Pool
from broker.client.produce import Producer
from broker.client.transactions import new_producer_id
from broker.model.address import Address
from broker.model.clock import SystemClock
from broker.model.errors import ErrorCode, RequestError
from broker.testing.faults import BrokerClock, Faults
from broker.testing.launcher import Launcher, launcher
from broker.testing.limits import (
    CONTROL_BYTES,
    CONTROL_SECONDS,
    GIVE_UP_SECONDS,
    POLL_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    WAIT_SECONDS,
)
from broker.testing.rules import OWN_CLIENT_ID

# What makes tests fast, and nothing else: a test's settings win.
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        "offsets.topic.num.partitions": "1",
        "polylog.durability": "os",
        "transaction.state.log.num.partitions": "1",
    }
)
Value = bytes | None
Headers = Sequence[tuple[str, Value]]
# A value; or key and value; or key, value and headers.
New = Value | tuple[Value, Value] | tuple[Value, Value, Headers]


class TestingError(Exception):
    """A broker has not started, or does not answer; the message has the end of its log."""

    __test__ = False  # pytest collects classes whose names begin with Test


class Record(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


@dataclass
class _Process:
    """A broker's process, the socket that steers it, and the fixture's connections to it."""

    pid: int
    control: socket.socket
    pool: Pool = field(default_factory=lambda: Pool(SystemClock()))
    received: bytes = b""  # of the next answer
    is_paused: bool = False


class Broker:
    """A broker on a free port of 127.0.0.1, which it keeps until `close`.

        with Broker() as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    `async with` is the same. Methods block, for a few milliseconds unless they say more; they can
    be called in any thread, one at a time.

    Attributes:
        faults: faults on demand.
        clock: the broker's clock.
        folder: a temporary directory with its data and its log; removed by `close`.
        run_number: how often it has been started.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        """Prepare a broker; `start` or a with-block starts it.

        Args:
            settings: by Kafka's names, such as {"num.partitions": 3}.
        """
        self._settings = {**DEFAULTS, **{key: str(each) for key, each in (settings or {}).items()}}
        self._launcher: Launcher | None = None
        self._port_holder, self._port = _held_port()
        self._process: _Process | None = None
        self._spare: _Process | None = None  # for the next reset
        self._data_number = 0
        self._is_closed = False
        self.folder = Path()
        self.run_number = 0
        self.faults = Faults(self)
        self.clock = BrokerClock(self._set_clock)

    # ---- lifetime --------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    async def __aenter__(self) -> Self:
        """Start, without blocking the event loop."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        """Close, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def start(self) -> None:
        """Start it, with the data of its last run; returns when it accepts clients."""
        if self._process is not None:
            raise TestingError("the broker is running already")
        if self._is_closed:
            raise TestingError("the broker is closed: make another one")
        if self._launcher is None:
            self._launcher = launcher()
            self.folder = self._launcher.new_folder()
        self._use(self._fork(self._launcher, self.data_dir))

    def _fork(self, launched: Launcher, data_dir: Path, *, is_spare: bool = False) -> _Process:
        """Start a process; a spare one opens its data and waits before it listens."""
        settings = {
            "listeners": self.bootstrap_servers,
            **self._settings,
            "log.dirs": str(data_dir),
        }
        asked = {
            "settings": [f"{name}={value}" for name, value in settings.items()],
            "step_ms": self.clock.step_ms,
            "passed_ms": self.clock.passed_ms,
            "is_spare": is_spare,
        }
        control, theirs = socket.socketpair()
        control.settimeout(START_SECONDS)
        try:
            with theirs, self._log_file.open("ab") as log:
                return _Process(launched.start(asked, theirs, log.fileno()), control)
        except BaseException:
            control.close()
            raise

    def _use(self, process: _Process) -> None:
        """Wait until a process accepts clients."""
        self._process = process
        self.run_number += 1
        try:
            self._answer(process)
        except BaseException:
            self.kill()
            raise
        process.control.settimeout(CONTROL_SECONDS)

    def stop(self) -> int:
        """Stop it as an operator does; return its exit code."""
        self.resume()
        if self._process is None:
            return 0
        os.kill(self._process.pid, signal.SIGTERM)
        _await_end(self._process)
        return self._reap(self._process)

    def kill(self) -> None:
        """End it at once, as kill -9 does; its data stays."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._reap(self._process)

    def restart(self) -> None:
        """Stop it and start it again on the same port and data."""
        self.stop()
        self.start()

    def reset(self) -> None:
        """Replace it by a new one on the same port, with nothing of the old one.

        Topics, groups, transactions, settings, users and faults are gone, and so are connections:
        a client that is left from an earlier test finds a broker that does not know it.
        """
        self.kill()
        self.clock.clear()
        if self._launcher is None:
            self.start()
            return
        self._launcher.remove(self.data_dir)
        os.truncate(self._log_file, 0)
        self._data_number += 1
        spare, self._spare = self._spare, None
        if spare is None:
            self.start()
        else:
            spare.control.sendall(b"\n")
            self._use(spare)
        # Most of a start happens now, beside the next test.
        next_dir = self.data_dir.with_name(f"data-{self._data_number + 1}")
        self._spare = self._fork(self._launcher, next_dir, is_spare=True)

    def close(self) -> None:
        """Kill it and remove its files."""
        self._is_closed = True
        self.kill()
        if self._launcher is not None and self._launcher.is_usable:
            if self._spare is not None:
                os.kill(self._spare.pid, signal.SIGKILL)
                self._reap(self._spare)
            self._launcher.remove(self.folder)
        self._port_holder.close()

    def pause(self) -> None:
        """Let it hang: connections stay open, and nothing is answered until `resume`."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGSTOP)
            self._process.is_paused = True

    def resume(self) -> None:
        """Let it go on after `pause`."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)
            self._process.is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it hang within a block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Its address, as clients take it: `127.0.0.1:PORT`."""
        return f"127.0.0.1:{self._port}"

    @property
    def data_dir(self) -> Path:
        """Its data directory."""
        return self.folder / f"data-{self._data_number}"

    @property
    def pid(self) -> int | None:
        """Its process id; None if it does not run."""
        return None if self._process is None else self._process.pid

    def logs(self) -> str:
        """Return what it has logged since it was new or reset."""
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    # ---- topics and records ----------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> str:
        """Create a topic, unless it exists; return its name."""
        configs = {key: str(value) for key, value in (config or {}).items()}
        create_topic(self._cluster(), name, partitions, configs)
        return name

    def topics(self) -> dict[str, int]:
        """Return the topics, without internal ones, and their numbers of partitions."""
        found = self._cluster().existing_topics().values()
        return {each.name: len(each.partitions) for each in found if not each.is_internal}

    def produce(self, topic: str, *records: New, partition: int = 0) -> None:
        """Write records to a partition: values, (key, value), or (key, value, headers)."""
        cluster = self._cluster()
        producer = Producer(cluster, new_producer_id(cluster))
        place = topic, partition
        producer.send({place: producer.encode(place, list(records))})

    def records(
        self, topic: str, partition: int | None = None, *, is_committed: bool = True
    ) -> list[Record]:
        """Return all records of a topic, or of one of its partitions, by partition and offset.

        Args:
            topic: its name.
            partition: None: all.
            is_committed: without records of open and aborted transactions.
        """
        cluster = self._cluster()
        described = cluster.topics([topic])[topic]
        wanted = described.partitions if partition is None else [partition]
        places = [(topic, each) for each in wanted]
        found: list[Record] = []
        for place in places:
            found += _all_of(cluster, place, described.topic_id, is_committed=is_committed)
        return found

    def wait_for_records(
        self, topic: str, count: int, timeout_seconds: float = WAIT_SECONDS
    ) -> list[Record]:
        """Return all records of a topic once there are `count` of them; TestingError in time."""
        ends = time.monotonic() + timeout_seconds  # noqa: TID251 - of a test, not of a broker
        while True:
            exists = topic in self.topics()
            found = self.records(topic) if exists else []
            if len(found) >= count:
                return found
            if time.monotonic() > ends:  # noqa: TID251
                raise TestingError(
                    f"{topic} has {len(found)} records after {timeout_seconds} s, expected {count}"
                )
            time.sleep(POLL_SECONDS)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, by topic and partition."""
        return committed_offsets(self._cluster(), group)

    # ---- its process -----------------------------------------------------------------------------

    def ask(self, do: str, **fields: object) -> Any:  # noqa: ANN401 - see child.py
        """Ask the broker's process for something; for `faults`."""
        process = self._running()
        if process.is_paused:
            raise TestingError("the broker is paused: resume it first")
        process.control.sendall(json.dumps({"do": do, **fields}).encode() + b"\n")
        return self._answer(process)

    def _answer(self, process: _Process) -> Any:  # noqa: ANN401 - see child.py
        while b"\n" not in process.received:
            try:
                received = process.control.recv(CONTROL_BYTES)
            except TimeoutError:
                raise TestingError(f"the broker does not answer:\n{self.logs()}") from None
            if not received:
                raise TestingError(f"the broker has ended:\n{self.logs()}")
            process.received += received
        line, _, process.received = process.received.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise TestingError(answer["error"])
        return answer["ok"]

    def _set_clock(self) -> None:
        if self._process is not None:
            self.ask("clock", step_ms=self.clock.step_ms, passed_ms=self.clock.passed_ms)

    def _running(self) -> _Process:
        if self._process is None:
            raise TestingError("the broker does not run")
        return self._process

    def _reap(self, process: _Process) -> int:
        """Forget a process that ends; return its exit code."""
        self._process = None
        process.control.close()
        process.pool.close()
        if self._launcher is None or not self._launcher.is_usable:
            return 0
        return self._launcher.wait(process.pid)

    @property
    def _log_file(self) -> Path:
        return self.folder / "broker.log"

    def _cluster(self) -> Cluster:
        process = self._running()
        return Cluster(
            [Address("127.0.0.1", self._port)],
            client_id=OWN_CLIENT_ID,
            give_up_seconds=GIVE_UP_SECONDS,
            pool=process.pool,
        )


def _await_end(process: _Process) -> None:
    """Wait until a broker that stops has closed its socket; kill one that takes too long."""
    process.control.settimeout(STOP_SECONDS)
    try:
        while process.control.recv(CONTROL_BYTES):
            pass
    except TimeoutError:
        os.kill(process.pid, signal.SIGKILL)
    except ConnectionError:
        pass


def _all_of(
    cluster: Cluster, place: tuple[str, int], topic_id: str, *, is_committed: bool
) -> list[Record]:
    """Return the records of a partition; again if retention deletes some of them meanwhile."""
    while True:
        [start] = list_offsets(cluster, {place: EARLIEST}).values()
        [end] = list_offsets(cluster, {place: LATEST}, is_committed=is_committed).values()
        part = Range(place[0], topic_id, place[1], start.offset, end.offset)
        try:
            return list(_records_of(cluster, part, is_committed=is_committed))
        except RequestError as error:
            [now] = list_offsets(cluster, {place: EARLIEST}).values()
            is_deleted = error.code is ErrorCode.OFFSET_OUT_OF_RANGE and now.offset > start.offset
            if not is_deleted:
                raise


def _records_of(cluster: Cluster, part: Range, *, is_committed: bool) -> Iterator[Record]:
    for chunk in fetch(cluster, part, is_committed=is_committed):
        visible = codec.decode_columns(chunk.data, columns=("offset",), aborted=chunk.aborted)
        offsets = set(memoryview(visible.arrays["offset"]).tolist())
        for each in codec.records(chunk.data):
            if each.offset in offsets and part.start <= each.offset < part.end:
                yield Record(
                    part.partition, each.offset, each.timestamp, each.key, each.value, each.headers
                )


def _held_port() -> tuple[socket.socket, int]:
    """Return a socket with a free port that nobody else gets while it is open.

    It is bound and does not listen: a socket that shares its address can.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder, holder.getsockname()[1]

"""Open streams: what becomes of compressed batches, and of what they decompress to."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest

from broker._native.protocols.cursus.stream import StreamEvent
from broker.codec.encoding import encode
from broker.core.groups.commands.assigned import AssignedCall, AssignedProtocol
from broker.model import limits
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CURSUS_MEMBERS_CHECKED_PER_STEP
from broker.protocols.cursus import streams as streams_module
from broker.protocols.cursus.connections import ConnectionState
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import parse
from broker.protocols.cursus.reads import stream_of
from broker.protocols.cursus.streams import Reader, Streams
from broker.protocols.cursus.table import FORMS

if TYPE_CHECKING:
    from broker._native.protocols.cursus.stream import CursusStream
    from broker.core.broker import Broker

READ = stream_of(parse(b"STREAM topic=t partition=0 group=g", FORMS))._replace(group="")
VALUES = (b"a" * 1000, b"b" * 1000)
[BATCH] = encode(VALUES, timestamp_ms=0, compression="gzip")
DECOMPRESSED_BYTES = len(encode(VALUES, timestamp_ms=0, compression="none")[0]) - 61


class Log:
    """One batch, until compaction removes it."""

    def __init__(self) -> None:
        self.data = BATCH

    def read(self, offset: int, size: int) -> bytes:
        assert (offset, size) == (0, 1)
        return self.data


class Stream:
    """Records what is done to it."""

    def __init__(self) -> None:
        self.log = Log()
        self.next_offset = 0
        self.skip_offset = 0
        self.is_open = True
        self.decompressed_bytes = 0
        self.last: tuple[bytes | None, bool] | None = None

    def decompress(self, batch: bytes, decompressed: bytes) -> None:
        assert batch == BATCH
        self.decompressed_bytes = len(decompressed)

    def drop_decompressed(self) -> None:
        self.decompressed_bytes = 0

    def end(self, last: bytes | None, *, is_last: bool) -> None:
        self.last = last, is_last


class Recompression:
    """The thread of the recompression."""

    async def run(self, work: Callable[[], bytes]) -> bytes:
        return work()


class Fakes:
    """Streams without a broker."""

    def __init__(self) -> None:
        self.streams = Streams()
        self.recompression = Recompression()

    def open(self) -> Stream:
        stream = Stream()
        broker = cast("Broker", self)
        reader = Reader(broker, ConnectionState(), READ, call=None)
        self.streams.add(cast("CursusStream", stream), reader)
        return stream

    def tell(self, stream: Stream, what: StreamEvent = StreamEvent.COMPRESSED) -> None:
        self.streams.on_event(cast("CursusStream", stream), what)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_the_batch_reported_by_the_stream_is_decompressed_even_if_the_log_changed() -> None:
    async def play() -> None:
        fakes = Fakes()
        stream = fakes.open()

        fakes.tell(stream)
        stream.log.data = b""  # compacted before the loop's next turn
        await settle()

        assert stream.decompressed_bytes == DECOMPRESSED_BYTES

    asyncio.run(play())


def test_an_exception_during_decompression_ends_the_stream(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        monkeypatch.setattr(limits, "READ_DECOMPRESSED_BYTES_PER_TURN", 0)

        async def fail(_work: object) -> bytes:
            raise MemoryError

        fakes = Fakes()
        monkeypatch.setattr(fakes.recompression, "run", fail)
        stream = fakes.open()

        fakes.tell(stream)
        await settle()

        assert stream.last == (b"STREAM_CONTROL type=CLOSE reason=error offset=0", False)
        assert "stream closed, a batch could not be decompressed" in caplog.text

    asyncio.run(play())


def test_nothing_is_decompressed_for_an_ended_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "READ_DECOMPRESSED_BYTES_PER_TURN", 0)
    monkeypatch.setattr(limits, "READ_DECOMPRESSED_BYTES_MAX", 1 << 20)

    async def play() -> None:
        turn = asyncio.Semaphore(0)
        waiting: list[object] = []

        async def run(work: Callable[[], bytes]) -> bytes:
            waiting.append(work)
            try:
                async with turn:
                    return work()
            finally:
                waiting.remove(work)

        fakes = Fakes()
        monkeypatch.setattr(fakes.recompression, "run", run)
        stream = fakes.open()
        fakes.tell(stream)
        await settle()
        assert len(waiting) == 1

        stream.is_open = False
        fakes.tell(stream, StreamEvent.CLOSED)
        await settle()

        assert waiting == []

    asyncio.run(play())


def test_decompressed_batches_of_all_streams_share_one_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        monkeypatch.setattr(
            streams_module, "CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX", 2 * DECOMPRESSED_BYTES
        )
        fakes = Fakes()
        opened = [fakes.open() for _ in range(4)]

        for stream in opened:
            fakes.tell(stream)
            await settle()

        assert [each.decompressed_bytes > 0 for each in opened] == [False, False, True, True]

    asyncio.run(play())


def test_a_stream_that_has_sent_its_decompressed_batch_frees_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        monkeypatch.setattr(
            streams_module, "CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX", 2 * DECOMPRESSED_BYTES
        )
        fakes = Fakes()
        first, second, third = (fakes.open() for _ in range(3))
        for stream in (first, second):
            fakes.tell(stream)
            await settle()

        second.decompressed_bytes = 0
        fakes.tell(third)
        await settle()

        assert first.decompressed_bytes > 0
        assert third.decompressed_bytes > 0

    asyncio.run(play())


STOPPED, LOADING = 2, 4


class Cluster(Fakes):
    """Members whose groups have coordinators elsewhere, all of which know newer generations."""

    def __init__(self) -> None:
        super().__init__()
        self.links = self.groups = self
        self.is_fenced = False
        self.is_over = asyncio.Event()
        self.asked: list[int] = []

    def upstreams(self) -> "Cluster":
        return self

    def close(self) -> None:
        """Do nothing: there are no links."""

    def watch_rebalances(self, _called: Callable[[str], None]) -> None:
        """Do nothing: another broker does not report them."""

    def join(self, group: str, coordinator: int) -> Stream:
        stream = Stream()
        call = AssignedCall(AssignedProtocol.CURSUS, group, "t", "m", 1, 1)

        async def check(_links: object) -> None:
            if not self.is_fenced:
                return
            self.asked.append(coordinator)
            if coordinator == STOPPED:
                await self.is_over.wait()
                raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE)
            if group.startswith("loading"):
                raise RefusedError("coordinator_not_available")
            raise RefusedError("GEN_MISMATCH")

        read = READ._replace(group=group)
        reader = Reader(cast("Broker", self), ConnectionState(), read, call, check)
        reader = reader._replace(coordinator=lambda: coordinator)
        self.streams.add(cast("CursusStream", stream), reader)
        return stream


def _run(play: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await play()

    asyncio.run(bounded())


def test_a_coordinator_that_does_not_answer_delays_no_check_at_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams_module, "CURSUS_MEMBERS_CHECKED_SECONDS", 0.2)

    async def play() -> None:
        fakes = Cluster()
        stopped = [fakes.join(f"stopped-{number}", STOPPED) for number in range(9)]
        fenced = [fakes.join(f"fenced-{number}", 3) for number in range(3)]
        await settle()
        fakes.is_fenced = True
        while not all(each.last for each in fenced):
            await asyncio.sleep(0.01)
        assert fakes.asked.count(STOPPED) == 1
        # Its groups are checked again, and the others with them.
        for each in fenced:
            each.last = None
        while not all(each.last for each in fenced) or fakes.asked.count(STOPPED) == 1:
            await asyncio.sleep(0.01)
        assert not any(each.last for each in stopped)
        fakes.is_over.set()
        for each in (*stopped, *fenced):
            fakes.tell(each, StreamEvent.CLOSED)
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.01)

    _run(play)


def test_members_of_own_groups_are_checked_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "CURSUS_MEMBERS_CHECKED_SECONDS", 0.2)
    own = 1

    async def play() -> None:
        fakes = Cluster()
        members = [fakes.join(f"own-{number}", own) for number in range(300)]
        await settle()
        fakes.is_fenced = True
        checked_by_turn = [0]
        while len(fakes.asked) < len(members):
            await asyncio.sleep(0)
            checked_by_turn.append(len(fakes.asked))
        steps = [after - before for before, after in pairwise(checked_by_turn)]
        assert max(steps) <= CURSUS_MEMBERS_CHECKED_PER_STEP
        for each in members:
            fakes.tell(each, StreamEvent.CLOSED)
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.01)

    _run(play)


def test_a_coordinator_elsewhere_that_loads_ends_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "CURSUS_MEMBERS_CHECKED_SECONDS", 0.2)

    async def play() -> None:
        fakes = Cluster()
        loading = [fakes.join(f"loading-{number}", LOADING) for number in range(3)]
        fenced = fakes.join("fenced", LOADING)
        await settle()
        fakes.is_fenced = True
        while fenced.last is None:
            await asyncio.sleep(0.01)
        assert not any(each.last for each in loading)
        for each in (*loading, fenced):
            fakes.tell(each, StreamEvent.CLOSED)
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.01)

    _run(play)

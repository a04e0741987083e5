"""Moves of partitions between directories: their order, their end, their rate."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, cast

import pytest

from broker.core.maintenance import moves as moves_module
from broker.core.maintenance.moves import Moves
from broker.core.scheduling.io_thread import IoThread
from broker.model.errors import DiskFull, StorageError
from broker.model.settings import LONG_MAX
from broker.storage.directories import Directories
from broker.storage.log_dir import DiskSpace
from tests.support.manual_clock import ManualClock

SIZE = 1000


class FakeLog:
    """A log, as a move sees it."""

    is_loading = False
    is_in_service = True
    is_offline = False
    is_deleted = False
    log_end_offset = 7

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.topic, _, number = folder.name.rpartition("-")
        self.partition = int(number)


class FakeCopy:
    """A copy that needs some steps."""

    made: list["FakeCopy"]
    steps = 3
    failure: Exception | None = None
    is_disturbed = False  # by cuts of the log

    def __init__(self, log: FakeLog, directory: Path) -> None:
        self.log = log
        self.directory = directory
        self.folder = directory / f"{Path(log.folder).name}.id-future"
        self.left = Path(f"{log.folder}.id-moved")
        self.size = self.end_offset = 0
        self.is_used = False
        self.calls: list[str] = []
        self.made.append(self)

    def begin(self) -> None:
        self.calls.append("begin")
        self.folder.mkdir()

    def resolve(self) -> None:
        self.calls.append("resolve")

    def step(self) -> int | None:
        if self.failure is not None:
            raise self.failure
        if self.calls.count("step") == self.steps:
            return None
        self.calls.append("step")
        self.size += SIZE
        return SIZE


class Broker:
    """What the moves of a broker use, and what they have done."""

    def __init__(self, path: Path) -> None:
        self.paths = [path / name for name in "abc"]
        for each in self.paths:
            each.mkdir()
        self.directories = Directories(self.paths[0], self.paths[1:])
        self.removed: list[Path] = []
        self.events: list[str] = []
        self.rate = LONG_MAX
        self.switches: Callable[[FakeCopy], bool] = lambda _: True
        self.clock = ManualClock(0)
        self.moves = Moves(
            self.directories,
            cast("Any", {"t": FakeTopic()}),
            IoThread(),
            self.clock,
            cast("Any", self.switch),
            self.remove,
            lambda: self.rate,
        )
        self.moves.around(self.before, lambda _log: self.events.append("after"))

    async def before(self, _log: object) -> None:
        self.events.append("before")

    def remove(self, folders: Iterable[Path]) -> None:
        self.removed += folders

    def switch(self, copy: FakeCopy, on_loop: Callable[[Callable[[], object]], object]) -> bool:
        is_done = bool(on_loop(lambda: self.switches(copy)))
        if is_done:
            copy.log.folder = str(copy.directory / Path(copy.log.folder).name)
        return is_done

    def log(self, name: str = "t-0") -> Any:
        folder = self.paths[0] / name
        folder.mkdir()
        return FakeLog(folder)

    async def ask(self, log: Any, directory: Path) -> None:
        await self.moves.ask(cast("Any", FakeTopic()), log, directory)

    async def until_moved(self, *logs: Any) -> None:
        async with asyncio.timeout(30):
            while any(self.moves.of(log) for log in logs):
                await asyncio.sleep(0)


class FakeTopic:
    """A topic."""


class FakeState:
    """Files of somebody else beside logs."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.is_kept = True
        self.copying = asyncio.Event()
        self.copying.set()

    def is_kept_for(self, _topic: object) -> bool:
        return self.is_kept

    async def copy(
        self, _topic: object, _log: object, folder: Path, is_wanted: Callable[[], bool]
    ) -> None:
        assert folder.name.endswith("-future")
        self.events.append("copying")
        await self.copying.wait()
        self.events.append("copied" if is_wanted() else "not wanted")

    @asynccontextmanager
    async def moving(self, _topic: object, log: FakeLog, _folder: Path) -> AsyncIterator[None]:
        self.events.append("moving")
        yield
        self.events.append(f"in {Path(log.folder).parent.name}")


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    FakeCopy.made = []
    monkeypatch.setattr(moves_module, "FolderCopy", FakeCopy)
    monkeypatch.setattr(moves_module, "disk_space", lambda _path: DiskSpace(100, 100))
    monkeypatch.setattr(moves_module, "MOVE_RETRY_SECONDS", 0.001)
    return Broker(tmp_path)


def while_moving(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test while the moves are carried out."""

    async def run(broker: Broker, **fixtures: Any) -> None:
        running = asyncio.ensure_future(broker.moves.run())
        try:
            await test(broker, **fixtures)
        finally:
            running.cancel()
            await asyncio.wait([running])
            await broker.moves.stop()

    @wraps(test)
    def wrapped(**fixtures: Any) -> None:
        asyncio.run(run(**fixtures))

    return wrapped


@while_moving
async def test_a_log_moves_and_its_old_folder_is_removed(broker: Broker) -> None:
    log = broker.log()

    await broker.ask(log, broker.paths[1])
    assert FakeCopy.made[0].calls[0] == "begin"
    await broker.until_moved(log)

    [copy] = FakeCopy.made
    assert copy.calls == ["begin", "resolve", "step", "step", "step"]
    assert log.folder == str(broker.paths[1] / "t-0")
    assert broker.removed == [copy.left]
    assert broker.events == ["before", "after"]


@while_moving
async def test_a_log_stays_that_is_asked_to_move_where_it_is(broker: Broker) -> None:
    log = broker.log()

    await broker.ask(log, broker.paths[0])

    assert broker.moves.of(log) is None
    assert FakeCopy.made == []


@while_moving
async def test_moves_are_made_one_after_another(broker: Broker) -> None:
    first, second = broker.log("t-0"), broker.log("t-1")
    broker.rate = 0
    await broker.ask(first, broker.paths[1])
    await broker.ask(second, broker.paths[1])
    await broker.ask(second, broker.paths[1])
    while not FakeCopy.made[0].size:
        await asyncio.sleep(0)

    move = broker.moves.of(first)
    assert move is not None
    assert (move.copy.size, move.lag, move.directory) == (SIZE, 7, broker.paths[1])
    assert [copy.calls[1:] for copy in FakeCopy.made] == [["resolve", "step"], []]

    broker.rate = LONG_MAX
    await broker.until_moved(first, second)
    assert broker.removed == [copy.left for copy in FakeCopy.made]


@while_moving
async def test_a_request_for_the_present_directory_ends_a_move(broker: Broker) -> None:
    first, second = broker.log("t-0"), broker.log("t-1")
    broker.rate = 0
    for log in (first, second):
        await broker.ask(log, broker.paths[1])
    while not FakeCopy.made[0].size:
        await asyncio.sleep(0)

    for log in (first, second):
        await broker.ask(log, broker.paths[0])
        assert broker.moves.of(log) is None

    assert broker.removed == [copy.folder for copy in FakeCopy.made]
    assert first.folder == str(broker.paths[0] / "t-0")


@while_moving
async def test_a_request_for_a_third_directory_replaces_a_move(broker: Broker) -> None:
    log = broker.log()
    broker.rate = 0
    await broker.ask(log, broker.paths[1])
    await broker.ask(log, broker.paths[2])
    broker.rate = LONG_MAX

    await broker.until_moved(log)

    assert log.folder == str(broker.paths[2] / "t-0")
    assert broker.removed == [FakeCopy.made[0].folder, FakeCopy.made[1].left]


@while_moving
async def test_a_move_back_is_asked_for_while_the_log_is_switched(broker: Broker) -> None:
    log = broker.log()
    asked: list[asyncio.Task[None]] = []

    def switches(_copy: FakeCopy) -> bool:
        if not asked:
            asked.append(asyncio.ensure_future(broker.ask(log, broker.paths[0])))
        return True

    broker.switches = switches
    await broker.ask(log, broker.paths[1])
    while not asked:
        await asyncio.sleep(0)
    (broker.paths[0] / "t-0").rename(FakeCopy.made[0].left)
    await asked[0]
    await broker.until_moved(log)

    assert log.folder == str(broker.paths[0] / "t-0")


@while_moving
async def test_a_log_that_could_not_be_switched_is_copied_further(broker: Broker) -> None:
    log = broker.log()
    answers = [True, False, False]
    broker.switches = lambda _copy: answers.pop()

    await broker.ask(log, broker.paths[1])
    await broker.until_moved(log)

    assert answers == []
    assert log.folder == str(broker.paths[1] / "t-0")


@while_moving
async def test_the_rate_may_change_while_a_move_waits_for_it(broker: Broker) -> None:
    log = broker.log()
    broker.rate = SIZE * 100
    await broker.ask(log, broker.paths[1])

    async with asyncio.timeout(30):
        while broker.moves.of(log):
            broker.clock.advance(1)
            await asyncio.sleep(0.001)

    assert broker.clock.monotonic_ms() >= FakeCopy.steps * 10


@pytest.mark.parametrize("is_full", [True, False])
@while_moving
async def test_a_move_waits_while_the_other_directory_is_full(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, *, is_full: bool
) -> None:
    log = broker.log()
    asked = 0

    def space(_path: Path) -> DiskSpace:
        nonlocal asked
        asked += 1
        return DiskSpace(100, 5 if asked < 4 and is_full else 100)

    monkeypatch.setattr(moves_module, "disk_space", space)
    if not is_full:
        monkeypatch.setattr(FakeCopy, "failure", DiskFull("no space"))
    await broker.ask(log, broker.paths[1])
    while asked < 4:
        await asyncio.sleep(0)
    monkeypatch.setattr(FakeCopy, "failure", None)

    await broker.until_moved(log)

    assert log.folder == str(broker.paths[1] / "t-0")


@while_moving
async def test_a_move_that_fails_leaves_the_log_where_it_is(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = broker.log()
    monkeypatch.setattr(FakeCopy, "failure", StorageError("the disk is gone"))

    await broker.ask(log, broker.paths[1])
    await broker.until_moved(log)

    assert "partition not moved" in caplog.text
    assert log.folder == str(broker.paths[0] / "t-0")
    assert broker.removed == [FakeCopy.made[0].folder]
    assert broker.events == ["before", "after"]


@while_moving
async def test_the_next_log_moves_after_a_directory_has_gone(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (broker.log(f"t-{number}") for number in range(3))
    monkeypatch.setattr(FakeCopy, "failure", StorageError("the disk is gone"))
    await broker.ask(first, broker.paths[1])
    shutil.rmtree(broker.paths[1])
    await broker.until_moved(first)
    monkeypatch.setattr(FakeCopy, "failure", None)
    with pytest.raises(StorageError):
        await broker.ask(second, broker.paths[1])

    await broker.ask(third, broker.paths[2])
    await broker.until_moved(third)

    assert third.folder == str(broker.paths[2] / "t-2")
    assert not broker.directories.takes(broker.paths[1])


@while_moving
async def test_a_copy_that_a_start_may_need_stays(broker: Broker) -> None:
    log = broker.log()

    def switches(copy: FakeCopy) -> bool:
        copy.is_used = True
        raise StorageError("the disk is gone")

    broker.switches = switches
    await broker.ask(log, broker.paths[1])
    await broker.until_moved(log)

    assert broker.removed == []


@while_moving
async def test_a_move_whose_folder_cannot_be_made_is_refused(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.log()

    def begin(_copy: FakeCopy) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(FakeCopy, "begin", begin)

    with pytest.raises(StorageError, match="the disk is gone"):
        await broker.ask(log, broker.paths[1])
    assert broker.moves.of(log) is None


@while_moving
async def test_a_log_that_is_deleted_moves_no_more(broker: Broker) -> None:
    log = broker.log()
    broker.rate = 0
    await broker.ask(log, broker.paths[1])
    while not FakeCopy.made[0].size:
        await asyncio.sleep(0)

    log.is_deleted = True  # at a rate at which it would never have been copied
    await broker.until_moved(log)

    assert broker.removed == [FakeCopy.made[0].folder]


@while_moving
async def test_nothing_is_copied_while_a_log_is_cut(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.log()
    looks: list[float] = []

    async def wait(event: asyncio.Event, seconds: float) -> bool:
        looks.append(seconds)
        await asyncio.sleep(0)
        return event.is_set()

    monkeypatch.setattr(moves_module, "is_set_within", wait)
    log.is_loading = True
    await broker.ask(log, broker.paths[1])
    while len(looks) < 5:
        await asyncio.sleep(0)
    [copy] = FakeCopy.made
    assert copy.calls == ["begin"]

    log.is_loading = False
    await broker.until_moved(log)

    assert copy.calls == ["begin", "resolve", "step", "step", "step"]
    assert log.folder == str(broker.paths[1] / "t-0")


@while_moving
async def test_what_fails_because_the_log_was_cut_is_tried_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.log()
    monkeypatch.setattr(FakeCopy, "failure", StorageError("the file has lost bytes"))
    monkeypatch.setattr(FakeCopy, "is_disturbed", True)
    await broker.ask(log, broker.paths[1])
    while "resolve" not in FakeCopy.made[0].calls:
        await asyncio.sleep(0)
    monkeypatch.setattr(FakeCopy, "failure", None)

    await broker.until_moved(log)

    assert log.folder == str(broker.paths[1] / "t-0")


@while_moving
async def test_a_log_that_is_offline_since_its_switch_is_not_tried_again(broker: Broker) -> None:
    log = broker.log()
    tries: list[FakeCopy] = []

    def switches(copy: FakeCopy) -> bool:
        tries.append(copy)
        copy.is_used = copy.is_disturbed = True
        raise StorageError("the disk is gone")

    broker.switches = switches
    await broker.ask(log, broker.paths[1])
    await broker.until_moved(log)

    assert tries == FakeCopy.made


@while_moving
async def test_a_move_begins_again_once_its_log_is_loaded(broker: Broker) -> None:
    moved, other, failed = (broker.log(f"t-{number}") for number in range(3))
    for each in (moved, failed):
        broker.directories.moving[Path(each.folder).name] = broker.paths[1]
    failed.is_in_service = False

    for each in (moved, other, failed):
        broker.moves.loaded(each)
    while not FakeCopy.made:
        await asyncio.sleep(0)
    await broker.until_moved(moved)

    assert [copy.log for copy in FakeCopy.made] == [moved]
    assert moved.folder == str(broker.paths[1] / "t-0")
    assert broker.directories.moving == {}


@while_moving
async def test_a_request_while_a_log_is_loaded_replaces_its_move_of_the_last_run(
    broker: Broker,
) -> None:
    stays, moves = broker.log("t-0"), broker.log("t-1")
    for each in (stays, moves):
        broker.directories.moving[Path(each.folder).name] = broker.paths[1]
        each.is_loading = True
    await broker.ask(stays, broker.paths[0])
    await broker.ask(moves, broker.paths[2])

    for each in (stays, moves):
        each.is_loading = False
        broker.moves.loaded(each)
    await asyncio.sleep(0)
    await broker.until_moved(moves)

    assert [(copy.log, copy.directory) for copy in FakeCopy.made] == [(moves, broker.paths[2])]
    assert broker.directories.moving == {}


def test_no_move_begins_again_while_the_broker_stops(broker: Broker) -> None:
    log = broker.log()
    broker.directories.moving["t-0"] = broker.paths[1]

    async def stop() -> None:
        await broker.moves.stop()
        broker.moves.loaded(log)
        await asyncio.sleep(0)

    asyncio.run(stop())

    assert FakeCopy.made == []


def test_a_stop_waits_for_a_switch_that_takes_longer_than_tasks_may(broker: Broker) -> None:
    """It needs the loop to its end; the I/O thread, which it is in, is ended next."""
    log = broker.log()
    begun, may_end = threading.Event(), threading.Event()

    def switch(copy: FakeCopy, on_loop: Callable[[Callable[[], object]], object]) -> bool:
        begun.set()
        assert may_end.wait(30)
        return broker.switch(copy, on_loop)

    broker.moves._switch = cast("Any", switch)

    async def stop() -> None:
        running = asyncio.ensure_future(broker.moves.run())
        await broker.ask(log, broker.paths[1])
        while not begun.is_set():
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=0.01)
        assert not running.done()
        asyncio.get_running_loop().call_later(0.01, may_end.set)
        await broker.moves.stop()
        assert log.folder == str(broker.paths[1] / "t-0")
        await asyncio.wait([running])

    asyncio.run(stop())


@while_moving
async def test_files_beside_a_log_are_copied_before_it_is_switched(broker: Broker) -> None:
    log = broker.log()
    answers = [True, False]
    broker.switches = lambda _copy: answers.pop()
    state, other = FakeState(broker.events), FakeState(broker.events)
    other.is_kept = False
    broker.moves.take_along(cast("Any", [state, other]))

    await broker.ask(log, broker.paths[1])
    await broker.until_moved(log)

    one_try = ["copying", "copied", "moving"]
    assert broker.events == ["before", *one_try, "in a", *one_try, "in b", "after"]


@while_moving
async def test_a_move_may_end_while_files_beside_its_log_are_copied(broker: Broker) -> None:
    log = broker.log()
    state = FakeState(broker.events)
    state.copying.clear()
    broker.moves.take_along(cast("Any", [state]))
    await broker.ask(log, broker.paths[1])
    while "copying" not in broker.events:
        await asyncio.sleep(0)

    asked = asyncio.ensure_future(broker.ask(log, broker.paths[0]))
    await asyncio.sleep(0)
    state.copying.set()
    await asked

    assert broker.events == ["before", "copying", "not wanted", "after"]
    assert log.folder == str(broker.paths[0] / "t-0")
    assert broker.removed == [FakeCopy.made[0].folder]

"""What a check of the disk changes in a broker: flags, the reserve, retried writes."""

import asyncio
from pathlib import Path

import pytest

from broker._native.log.turn import DiskState, Turn
from broker.core.health import Health
from broker.core.maintenance.disk_space import Level
from broker.core.scheduling.io_thread import IoThread
from broker.model import limits
from broker.model.errors import StorageError
from broker.server.disk_watch import DiskWatch
from broker.storage.reserve import FILE_NAME

MIB = 1 << 20
TOTAL = 64 * MIB
WAIT_S = 60


class Disk:
    """A watched disk whose free bytes a test sets."""

    def __init__(self, path: Path) -> None:
        self.free = TOTAL
        self.levels: list[Level] = []
        self.turn = Turn(None)
        self.reserve = path / FILE_NAME
        self.health = Health()
        self.watch = DiskWatch(path, self.turn, IoThread(), self.levels.append, self.health)
        self.watch.measure = self.space

    def space(self, _path: str) -> tuple[int, int, int, int]:
        return TOTAL, self.free, 0, 0

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        return self.turn.disk.is_tight, self.turn.disk.refuses_clients, self.turn.disk.is_read_only

    @property
    def reserved(self) -> int:
        return self.reserve.stat().st_size if self.reserve.exists() else 0


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(tmp_path)
    monkeypatch.setattr(limits, "DISK_LOOK_SECONDS", 0.001)
    return disk


@pytest.mark.parametrize(
    ("percent", "level", "flags"),
    [
        (14, Level.LOW, (False, False, False)),
        (7, Level.TRIM, (True, False, False)),
        (4, Level.REFUSE, (True, True, False)),
        (0, Level.READ_ONLY, (True, True, True)),
    ],
)
def test_a_start_applies_the_level_and_makes_no_reserve(
    disk: Disk, percent: int, level: Level, flags: tuple[bool, ...]
) -> None:
    disk.free = TOTAL * percent // 100 + 4 * MIB * (percent > 0)  # without its reserve

    disk.watch.start()

    assert (disk.levels, disk.flags, disk.reserved) == ([level], flags, 0)


def test_a_start_on_a_full_disk_releases_the_reserve_of_an_earlier_run(disk: Disk) -> None:
    disk.reserve.write_bytes(bytes(4 * MIB))
    disk.free = 0

    disk.watch.start()

    assert disk.reserved == 0


def test_the_reserve_is_made_and_released_with_the_free_space(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def scenario() -> None:
        running = asyncio.ensure_future(disk.watch.run())
        while disk.reserved != 4 * MIB:
            await asyncio.sleep(0.001)
        disk.free = 3 * MIB
        while disk.reserved != MIB // 2:
            await asyncio.sleep(0.001)
        disk.free = 60 * MIB
        while disk.reserved != 4 * MIB:
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))

    assert disk.levels == [Level.REFUSE, Level.NORMAL]
    assert disk.flags == (False, False, False)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[4] for line in lines] == ["level=REFUSE", "level=NORMAL"]
    assert "delete topics or records" in lines[0]


def test_a_write_without_disk_space_triggers_a_check_at_once(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DISK_LOOK_SECONDS", 3_600)

    async def scenario() -> None:
        running = asyncio.ensure_future(disk.watch.run())
        while disk.reserved != 4 * MIB:
            await asyncio.sleep(0.001)
        assert disk.turn.when_full is not None
        disk.turn.disk.has_failed = True
        disk.turn.when_full()
        while disk.reserved != MIB // 2:
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))

    assert disk.levels == [Level.REFUSE]


def test_a_stop_removes_the_reserve(disk: Disk) -> None:
    disk.reserve.write_bytes(b"reserved")

    asyncio.run(disk.watch.stop())

    assert disk.reserved == 0


def test_each_disk_has_its_own_level_and_the_fullest_one_is_shown(tmp_path: Path) -> None:
    free = {tmp_path: TOTAL, tmp_path / "more": TOTAL, tmp_path / "gone": None}

    def measure(path: str) -> tuple[int, int, int, int]:
        found = free[Path(path)]
        if found is None:
            raise StorageError("it is gone")
        return TOTAL, found, 0, 0

    turn, health = Turn(None), Health()
    levels: list[Level] = []
    more, gone = DiskState(), DiskState()
    others = {tmp_path / "gone": gone, tmp_path / "more": more}
    watch = DiskWatch(tmp_path, turn, IoThread(), levels.append, health, others)
    watch.measure = measure

    watch.start()
    assert (turn.disk.refuses_clients, more.refuses_clients) == (False, False)
    free[tmp_path / "more"] = TOTAL * 4 // 100
    watch.start()

    assert (turn.disk.refuses_clients, more.refuses_clients) == (False, True)
    assert (gone.refuses_clients, more.is_read_only) == (False, False)
    assert (levels, health.disk_level, watch.state[2]) == ([Level.REFUSE], Level.REFUSE, 3)
    assert watch.state[1].free_bytes == free[tmp_path / "more"]

    free[tmp_path] = 0
    free[tmp_path / "more"] = TOTAL
    watch.start()
    assert (turn.disk.is_read_only, more.refuses_clients) == (True, False)
    assert levels == [Level.REFUSE, Level.READ_ONLY]


def test_a_write_without_space_counts_for_the_disk_of_its_log(tmp_path: Path) -> None:
    turn, more = Turn(None), DiskState()
    watch = DiskWatch(
        tmp_path, turn, IoThread(), lambda _: None, Health(), {tmp_path / "more": more}
    )
    watch.measure = lambda _path: (TOTAL, TOTAL, 0, 0)
    more.has_failed = True  # by a quota, which does not show in the free bytes

    watch.start()

    assert (turn.disk.refuses_clients, more.refuses_clients) == (False, True)
    assert not more.has_failed

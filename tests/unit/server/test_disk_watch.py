"""What a check of the disk changes in a broker: flags, the reserve, retried writes."""

import asyncio
from pathlib import Path

import pytest

from broker._native.log.turn import Turn
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
        return self.turn.is_tight, self.turn.refuses_clients, self.turn.is_read_only

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


def test_the_level_is_that_of_the_fullest_disk(tmp_path: Path) -> None:
    free = {tmp_path: TOTAL, tmp_path / "more": TOTAL, tmp_path / "gone": None}

    def measure(path: str) -> tuple[int, int, int, int]:
        found = free[Path(path)]
        if found is None:
            raise StorageError("it is gone")
        return TOTAL, found, 0, 0

    others = [tmp_path / "gone", tmp_path / "more"]
    watch = DiskWatch(tmp_path, turn := Turn(None), IoThread(), lambda _: None, Health(), others)
    watch.measure = measure

    watch.start()
    assert not turn.refuses_clients
    free[tmp_path / "more"] = TOTAL * 4 // 100
    watch.start()
    assert turn.refuses_clients

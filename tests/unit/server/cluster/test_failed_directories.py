"""A directory that has failed takes all of its logs offline, and no others."""

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.segments import text_files
from broker.server.cluster.failed_directories import FailedDirectories
from broker.storage.directories import Directories

if TYPE_CHECKING:
    from broker.core.scheduling.io_thread import IoThread

T = TypeVar("T")
ALWAYS = 1_000_000


class FakeThread:
    """Does at once what the I/O thread would do."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()


class FakeLog:
    """A log in a folder."""

    def __init__(self, folder: Path, *, is_loading: bool = False) -> None:
        self.folder = str(folder)
        self.is_loading = is_loading
        self.is_offline = False

    def end_service(self) -> bool:
        was_online, self.is_offline = not self.is_offline, True
        return was_online


class Disks:
    """Three directories with two logs each, the last of which is being loaded."""

    def __init__(self, path: Path) -> None:
        self.paths = [path / name for name in ("home", "more", "more-2")]
        for each in self.paths:
            each.mkdir()
            (each / text_files.META_PROPERTIES).touch()
        self.logs = [
            FakeLog(each / f"t-{n}", is_loading=n == 2) for each in self.paths for n in range(3)
        ]
        self.directories = Directories(self.paths[0], self.paths[1:])
        self.looks = 0
        self.failed = FailedDirectories(
            self.directories, cast("IoThread", FakeThread()), self._all_logs
        )

    def _all_logs(self) -> Iterator[tuple[PartitionLog, Any]]:
        self.looks += 1
        return ((cast("PartitionLog", log), None) for log in self.logs)

    def fail(self, *numbers: int) -> None:
        """Let logs fail, and report them."""
        for number in numbers:
            self.logs[number].is_offline = True
        logs = [cast("PartitionLog", self.logs[n]) for n in numbers]
        asyncio.run(self.failed.logs_failed(logs))

    def offline(self) -> list[int]:
        return [number for number, log in enumerate(self.logs) if log.is_offline]


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    yield Disks(tmp_path)
    file_ops.stop_recording()


def break_disk(path: Path) -> None:
    file_ops.start_recording()
    file_ops.fail("write", f"{path}/*", errno.EIO, times=ALWAYS)


def test_all_logs_of_a_failed_directory_go_offline(
    disks: Disks, caplog: pytest.LogCaptureFixture
) -> None:
    break_disk(disks.paths[1])

    disks.fail(3)

    assert disks.offline() == [3, 4], "one is being loaded"
    assert caplog.messages[-1] == (
        f"other logs of a failed directory offline: path={disks.paths[1]} count=1"
    )
    disks.fail(3, 4)
    assert disks.looks == 1


def test_a_log_that_is_loaded_meanwhile_goes_offline_then(disks: Disks) -> None:
    break_disk(disks.paths[1])
    disks.fail(3)

    for number in (2, 5, 8):
        disks.failed.loaded(cast("PartitionLog", disks.logs[number]))

    assert disks.offline() == [3, 4, 5]


def test_a_log_that_has_failed_alone_leaves_its_directory_serving(disks: Disks) -> None:
    disks.fail(3)

    assert disks.offline() == [3]
    assert disks.looks == 0


def test_the_first_directory_is_left_to_the_broker(disks: Disks) -> None:
    break_disk(disks.paths[0])

    disks.fail(0)

    assert disks.offline() == [0]


def test_a_directory_that_takes_no_new_partitions_any_more_has_failed(disks: Disks) -> None:
    break_disk(disks.paths[2])
    disks.directories.check([disks.paths[2] / "new-0"])

    disks.fail(6, 3)

    assert disks.offline() == [3, 6, 7]

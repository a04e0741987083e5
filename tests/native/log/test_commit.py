"""The syncs behind an acknowledged append: which happen, in which order, with which result."""

import errno
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log.commit import CommitThread

WAIT_MS = 30_000  # how long a test waits for something that must happen


@pytest.fixture
def commit() -> Iterator[CommitThread]:
    """Start one sync thread: jobs finish in the order they were submitted."""
    commit = CommitThread(1)
    yield commit
    commit.stop()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    """Open eight files of 100 bytes, called 0 to 7."""
    fds = [os.open(tmp_path / str(name), os.O_RDWR | os.O_CREAT) for name in range(8)]
    for fd in fds:
        os.write(fd, bytes(100))
    yield fds
    for fd in fds:
        os.close(fd)


def finished(commit: CommitThread, count: int) -> list[tuple[int, int]]:
    """Wait until `count` jobs are finished and return their (target, result)."""
    jobs: list[tuple[int, int]] = []
    while len(jobs) < count:
        some = commit.wait_finished(WAIT_MS)
        assert some, "no job finished in time"
        jobs += some
    return jobs


def thread_ids() -> set[int]:
    """Return the threads of this process."""
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def synced() -> list[tuple[str, str]]:
    """Return the recorded (operation, file name) pairs without hints to the kernel."""
    return [
        (op, Path(path).name)
        for op, path, *_ in file_ops.recorded()
        if op in {"sync_data", "sync", "truncate"}
    ]


# ---- one job ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("recording")
def test_a_job_syncs_the_data_of_its_file_once(commit: CommitThread, files: list[int]) -> None:
    commit.submit_files([files[3]], target=42)

    assert finished(commit, 1) == [(42, 0)]
    assert synced() == [("sync_data", "3")]


@pytest.mark.usefixtures("recording")
def test_a_roll_syncs_the_old_file_the_new_file_and_then_the_folder(
    commit: CommitThread, files: list[int], tmp_path: Path
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        commit.submit_files([files[1], files[0]], folder)
        assert finished(commit, 1) == [(0, 0)]
    finally:
        os.close(folder)

    assert synced() == [("sync_data", "1"), ("sync_data", "0"), ("sync", tmp_path.name)]


@pytest.mark.usefixtures("recording")
def test_sealing_truncates_the_first_file_before_it_syncs(
    commit: CommitThread, files: list[int], tmp_path: Path
) -> None:
    commit.submit_files([files[0], files[1]], truncate_to=60)

    assert finished(commit, 1) == [(0, 0)]
    assert synced() == [("truncate", "0"), ("sync_data", "0"), ("sync_data", "1")]
    assert file_ops.size(tmp_path / "0") == 60
    assert file_ops.size(tmp_path / "1") == 100


@pytest.mark.parametrize("count", [0, 3])
def test_a_job_has_one_or_two_files_besides_the_folder(
    commit: CommitThread, files: list[int], count: int
) -> None:
    with pytest.raises(ValueError, match=f"got {count}"):
        commit.submit_files(files[:count])


# ---- failures --------------------------------------------------------------------------------


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EINTR])
def test_a_failed_sync_is_reported_and_not_tried_again(
    commit: CommitThread, files: list[int], number: int
) -> None:
    file_ops.fail("sync_data", "/5", number)

    commit.submit_files([files[5]])

    assert finished(commit, 1) == [(0, -number)]
    assert synced() == [("sync_data", "5")]


@pytest.mark.usefixtures("recording")
def test_a_job_stops_at_its_first_failure(
    commit: CommitThread, files: list[int], tmp_path: Path
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    file_ops.fail("sync_data", "/1", errno.EIO)
    try:
        commit.submit_files([files[0], files[1]], folder)
        assert finished(commit, 1) == [(0, -errno.EIO)]
    finally:
        os.close(folder)

    assert synced() == [("sync_data", "0"), ("sync_data", "1")]


@pytest.mark.usefixtures("recording")
def test_a_file_that_cannot_be_truncated_is_not_synced(
    commit: CommitThread, files: list[int]
) -> None:
    file_ops.fail("truncate", "/0", errno.EIO)

    commit.submit_files([files[0]], truncate_to=0)

    assert finished(commit, 1) == [(0, -errno.EIO)]
    assert synced() == [("truncate", "0")]


@pytest.mark.usefixtures("recording")
def test_a_failed_job_does_not_affect_other_jobs(commit: CommitThread, files: list[int]) -> None:
    file_ops.fail("sync_data", "/2", errno.EIO)

    for target, fd in enumerate(files):
        commit.submit_files([fd], target=target)

    results = dict(finished(commit, len(files)))
    assert results == {target: -errno.EIO if target == 2 else 0 for target in range(8)}
    assert len(synced()) == len(files)


def test_a_job_for_a_closed_descriptor_fails(commit: CommitThread, files: list[int]) -> None:
    closed = os.dup(files[0])
    os.close(closed)

    commit.submit_files([closed])

    assert finished(commit, 1) == [(0, -errno.EBADF)]


# ---- many jobs -------------------------------------------------------------------------------


@pytest.mark.usefixtures("recording")
def test_jobs_are_synced_in_the_order_of_submission(commit: CommitThread, files: list[int]) -> None:
    for target, fd in enumerate(files):
        commit.submit_files([fd], target=target)

    assert finished(commit, len(files)) == [(target, 0) for target in range(8)]
    assert synced() == [("sync_data", str(name)) for name in range(8)]


@pytest.mark.usefixtures("recording")
def test_a_file_whose_writeback_cannot_start_fails(commit: CommitThread, files: list[int]) -> None:
    """The first reader of the error must keep it: the sync that follows may not report it again."""
    file_ops.fail("start_writeback", "/", errno.EIO, times=1000)

    for target in range(200):
        commit.submit_files([files[target % 8]], target=target)
    results = finished(commit, 200)

    failed = [target for target, result in results if result == -errno.EIO]
    hints = [op for op, *_ in file_ops.recorded() if op == "start_writeback"]
    assert len(failed) == len(hints)
    assert len(synced()) == 200 - len(failed)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_every_job_is_returned_exactly_once(files: list[int], threads: int) -> None:
    commit = CommitThread(threads)

    for target in range(300):
        commit.submit_files([files[target % 8]], target=target)

    assert sorted(finished(commit, 300)) == [(target, 0) for target in range(300)]
    commit.stop()


def test_the_event_is_readable_exactly_while_finished_jobs_are_queued(
    commit: CommitThread, files: list[int]
) -> None:
    def readable(timeout_s: float) -> bool:
        return bool(select.select([commit.event_fd], [], [], timeout_s)[0])

    assert not readable(0)
    commit.submit_files([files[0]])
    assert readable(WAIT_MS / 1000)

    assert commit.wait_finished(0) == [(0, 0)]

    assert not readable(0)
    assert commit.wait_finished(0) == []


def test_finished_jobs_of_a_burst_write_the_event_once(
    commit: CommitThread, files: list[int]
) -> None:
    for fd in files:
        commit.submit_files([fd])
    commit.stop()

    assert os.eventfd_read(commit.event_fd) == 1


@pytest.mark.usefixtures("recording")
def test_without_threads_a_job_waits_until_it_is_run(files: list[int]) -> None:
    commit = CommitThread(0)
    commit.submit_files([files[0]], target=7)
    assert (synced(), commit.wait_finished(0)) == ([], [])

    commit.run()

    assert len(synced()) == 1
    assert commit.wait_finished(0) == [(7, 0)]


# ---- stopping --------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_stop_finishes_what_was_submitted(files: list[int], threads: int) -> None:
    commit = CommitThread(threads)
    for target in range(100):
        commit.submit_files([files[target % 8]], target=target)

    commit.stop()

    assert sorted(commit.wait_finished(0)) == [(target, 0) for target in range(100)]


def test_stop_ends_the_threads(files: list[int]) -> None:
    before = thread_ids()
    commit = CommitThread(3)
    started = thread_ids() - before
    commit.submit_files([files[0]])

    commit.stop()

    assert len(started) == 3
    while started & thread_ids():  # joined, but the kernel may still list them for a moment
        os.sched_yield()


@pytest.mark.usefixtures("recording")
def test_a_job_submitted_after_stop_is_returned_as_cancelled(files: list[int]) -> None:
    commit = CommitThread(1)
    commit.stop()

    commit.submit_files([files[0]], target=7)

    assert commit.wait_finished(0) == [(7, -errno.ECANCELED)]
    assert synced() == []


def test_stop_can_be_repeated(commit: CommitThread) -> None:
    commit.stop()

    commit.stop()


def test_a_dropped_commit_thread_releases_its_threads_and_event(files: list[int]) -> None:
    commit = CommitThread(2)
    commit.submit_files([files[0]])
    event_fd = commit.event_fd

    del commit

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(event_fd)


def test_all_signals_are_blocked_in_the_threads() -> None:
    """Signals belong to the main thread, whose Python handler wakes the loop."""
    before = thread_ids()
    commit = CommitThread(2)
    started = thread_ids() - before

    blocked = []
    for thread in started:
        lines = Path(f"/proc/self/task/{thread}/status").read_text().splitlines()
        blocked.append(
            int(next(line for line in lines if line.startswith("SigBlk")).split()[1], 16)
        )
    commit.stop()

    standard = (1 << 31) - 1
    unblockable = 1 << (signal.SIGKILL - 1) | 1 << (signal.SIGSTOP - 1)
    assert [mask & standard for mask in blocked] == [standard & ~unblockable] * 2


@pytest.mark.parametrize("threads", [-1, 65])
def test_the_number_of_threads_is_limited(threads: int) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        CommitThread(threads)

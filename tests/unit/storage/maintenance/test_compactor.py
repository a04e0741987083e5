"""The compactor's output: the complete files of a segment, whatever interrupts it."""

import errno
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import broker
from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of
from broker.codec import records
from broker.model import limits
from broker.model.errors import Corrupt, StorageError
from broker.segments.digests import Digest
from broker.segments.names import LOG, file_name
from broker.storage.files import digests
from broker.storage.maintenance import compactor
from tests.support.compacting import compacted, contents, job_of, newest, swap_in, write, written
from tests.support.native_log import NOW_MS, Logs
from tests.support.segment_files import batches_of

EPOCH_END = 15  # the last byte of a batch's leader epoch
SUFFIXES = (".digest", ".index", ".log", ".timeindex")


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def cleaned(folder: str) -> list[str]:
    return sorted(file.name for file in Path(folder).glob("*.cleaned"))


def test_a_group_becomes_one_segment_with_its_indexes(logs: Logs) -> None:
    writes = [(b"key %d" % (i % 3), b"value %d" % i) for i in range(20)]
    log = written(logs, writes)
    bases = [base for base, _, _ in log.segment_entries[:-1]]
    assert len(bases) > 3

    [ready], done = compacted(job_of(log, [bases]))

    assert (ready.old, ready.new) == (bases, 0)
    assert cleaned(log.folder) == [f"{0:020d}{suffix}.cleaned" for suffix in SUFFIXES]
    data = (Path(log.folder) / f"{0:020d}.log.cleaned").read_bytes()
    assert {r.key: (r.offset, r.value) for r in records(data)} == newest(writes)
    assert done == {"kind": "done", "end_offset": 20, "records_read": 20, "records_kept": 3}


def test_an_unchanged_segment_leaves_no_files(logs: Logs) -> None:
    log = written(logs, [(b"key %d" % i, b"value") for i in range(20)])

    swaps, _ = compacted(job_of(log))

    assert swaps == []
    assert cleaned(log.folder) == []


def test_segments_without_remaining_records_have_no_replacement(logs: Logs) -> None:
    log = written(logs, [(b"key", b"value %d" % i) for i in range(20)])

    swaps, _ = compacted(job_of(log))

    assert [ready.new for ready in swaps] == [*[None] * (len(swaps) - 1), swaps[-1].old[0]]
    assert len(cleaned(log.folder)) == len(SUFFIXES)


def test_the_indexes_equal_those_written_by_the_log_itself(logs: Logs, tmp_path: Path) -> None:
    """Segments without removable records become the same as one large segment."""
    writes = [(b"key %d" % i, b"value") for i in range(40)]
    log = written(logs, writes)
    bases = [base for base, _, _ in log.segment_entries[:-1]]
    compacted(job_of(log, [bases]))
    (tmp_path / "large").mkdir()
    large = Logs(tmp_path / "large")
    other = large.create(index_interval_bytes=100)
    write(large, other, writes)
    other.roll()
    large.settle(other)
    other.sync_indexes()

    for suffix in SUFFIXES[1:]:
        name = f"{0:020d}{suffix}"
        ours = (Path(log.folder) / f"{name}.cleaned").read_bytes()
        assert ours == (Path(other.folder) / name).read_bytes(), suffix


def test_read_pieces_smaller_than_a_batch_grow_until_it_fits(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COMPACTION_READ_BYTES", 7)
    writes = [(b"key %d" % (i % 3), b"value %d" % i) for i in range(20)]
    log = written(logs, writes)

    for ready in compacted(job_of(log))[0]:
        swap_in(log, ready)

    assert {key: (offset, value) for offset, key, value in contents(log)} == newest(writes)


@pytest.mark.parametrize("cut", [1, 30, 61])
def test_a_segment_that_ends_within_a_batch_is_damaged(logs: Logs, cut: int) -> None:
    log = written(logs, [(b"key %d" % i, b"value") for i in range(20)])
    job = job_of(log)
    [[(base, size)], *rest] = job.groups

    with pytest.raises(Corrupt, match=f"{0:020d}.log: a batch cut short"):
        compacted(job._replace(groups=[[(base, size - cut)], *rest]))


def test_a_damaged_batch_names_its_segment(logs: Logs) -> None:
    log = written(logs, [(b"key %d" % i, b"value") for i in range(20)])
    base = log.segment_entries[1][0]
    file = Path(log.folder) / f"{base:020d}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    with pytest.raises(Corrupt, match=f"{base:020d}.log"):
        compacted(job_of(log))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), st.none() | st.binary(max_size=9)
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(4 * 24, 300),
    st.integers(1, 4),
)
def test_passes_end_with_the_last_value_of_every_key(
    tmp_path_factory: pytest.TempPathFactory,
    writes: list[tuple[bytes, bytes | None]],
    map_bytes: int,
    together: int,
) -> None:
    logs = Logs(tmp_path_factory.mktemp("log"))
    log = written(logs, writes)
    end, first_dirty = log.log_end_offset, 0
    while first_dirty < end:
        bases = [base for base, _, _ in log.segment_entries[:-1]]
        groups = [bases[i : i + together] for i in range(0, len(bases), together)]
        job = job_of(log, groups, first_dirty_offset=first_dirty, map_bytes=map_bytes)
        swaps, done = compacted(job)
        for ready in swaps:
            swap_in(log, ready)
        assert done["end_offset"] > first_dirty
        first_dirty = done["end_offset"]

    assert {key: (offset, value) for offset, key, value in contents(log)} == newest(writes)
    assert len(contents(log)) == len(newest(writes))
    for offset in range(end):
        following = [o for o, _, _ in contents(log) if o >= offset]
        read = [r.offset for r in records(log.read(offset, 1))]
        assert read[:1] == following[:1]
    logs.commit.stop()


# ---- the process ---------------------------------------------------------------------------------


def started(**options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "broker.storage.maintenance.compactor"],
        stdin=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(broker.__file__).parents[1])},
        **{"stdout": subprocess.PIPE, **options},
    )


def given_job(job: compactor.Job, **streams: int) -> subprocess.Popen[bytes]:
    """Return a process that has its job, and whose stdin stays open."""
    child = started(**streams)
    assert child.stdin is not None
    child.stdin.write(json.dumps(job._asdict()).encode() + b"\n")
    child.stdin.flush()
    return child


def outcome(job: compactor.Job) -> tuple[int, bytes]:
    """Return the exit code and the output of a process with that job."""
    with given_job(job) as child:
        assert child.stdout is not None
        output = child.stdout.read()
        return child.wait(60), output


def test_the_process_does_a_job_and_reports_it(logs: Logs) -> None:
    log = written(logs, [(b"key %d" % (i % 3), b"value %d" % i) for i in range(20)])

    code, output = outcome(job_of(log))

    assert code == 0
    assert b'"kind": "done", "end_offset": 20' in output
    assert cleaned(log.folder) != []


def faults_of(recorded: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, str, int]]:
    """Yield operation, path and how many such precede; not the close of a file only read."""
    earlier: Counter[tuple[str, str]] = Counter()
    written = set()
    for operation, path, *_ in recorded:
        if operation in {"write", "sync"}:
            written.add(path)
        if operation != "close" or path in written:
            yield operation, path, earlier[operation, path]
        if operation == "close":
            written.discard(path)
        earlier[operation, path] += 1


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_failure_anywhere_ends_the_pass_and_the_next_pass_does_all_of_it(
    logs: Logs, error: int
) -> None:
    log = written(logs, [(b"key %d" % (i % 3), b"value %d" % i) for i in range(20)])
    job = job_of(log, [[base for base, _, _ in log.segment_entries[:-1]]])
    file_ops.start_recording()
    try:
        compacted(job)
        faults = list(faults_of(file_ops.recorded()))
        assert len(faults) > 30
        for operation, path, after in faults:
            file_ops.start_recording()
            file_ops.fail(operation, path, error, after)

            with pytest.raises((StorageError, OSError)):
                compactor.compact(job, lambda _: None)
    finally:
        file_ops.stop_recording()

    [ready], _ = compacted(job)
    swap_in(log, ready)
    assert len(contents(log)) == 3


def test_a_damaged_log_is_distinguished_from_a_failed_disk(logs: Logs) -> None:
    log = written(logs, [(b"key %d" % i, b"value") for i in range(20)])
    file = Path(log.folder) / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    assert b'"kind": "failed", "is_damaged": true' in outcome(job_of(log))[1]
    assert b'"kind": "failed", "is_damaged": false' in outcome(job_of(log, folder="/none"))[1]


@pytest.mark.parametrize("line", [b"", b'{"folder": "'])
def test_a_truncated_job_is_not_begun(line: bytes) -> None:
    with started(stderr=subprocess.PIPE) as child:
        assert child.communicate(line, timeout=60) == (b"", b"")

    assert child.returncode == 1


def test_a_job_of_another_parent_is_not_begun(logs: Logs) -> None:
    log = written(logs, [(b"key", b"value")] * 20)

    assert outcome(job_of(log, parent_pid=1)) == (1, b"")
    assert cleaned(log.folder) == []


def test_the_process_exits_silently_when_its_output_is_closed(logs: Logs) -> None:
    """Its parent was killed: its report would be in the log of the next one."""
    reading, writing = os.pipe()
    os.close(reading)
    log = written(logs, [(b"key", b"value")] * 20)

    with given_job(job_of(log), stdout=writing, stderr=subprocess.PIPE) as child:
        os.close(writing)
        assert child.stderr is not None
        assert child.stderr.read() == b""
        assert child.wait(60) == 1


def test_the_process_exits_when_stdin_ends(logs: Logs) -> None:
    """Its parent has gone: its output is useless."""
    log = written(logs, [(b"key", b"value")] * 20)
    os.mkfifo(Path(log.folder) / f"{7:020d}.log")  # reading it blocks forever

    with given_job(job_of(log)._replace(groups=[[(7, 99)]])) as child:
        time.sleep(0.5)
        assert child.poll() is None
        assert child.stdin is not None
        child.stdin.close()

        assert child.wait(60) == 1


def test_segments_that_differ_from_their_digests_are_not_compacted(logs: Logs) -> None:
    """A flip in a leader epoch, which no CRC covers, would look right in a new segment."""
    log = written(logs, [(b"key", b"value %d" % i) for i in range(20)])
    base = log.segment_entries[1][0]
    file = Path(log.folder) / file_name(base, LOG)
    content = bytearray(file.read_bytes())
    digest = Digest(digest_of(content), len(content), NOW_MS)
    assert digests.write(Path(log.folder), base, digest, file.stat().st_ino)
    last = max(each.position for each in batches_of(file))
    content[last + EPOCH_END] ^= 1
    file.write_bytes(content)

    with pytest.raises(Corrupt, match=file.name):
        compacted(job_of(log))

    assert cleaned(log.folder) == []

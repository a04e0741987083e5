"""Offset checkpoints in files that several brokers write."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from broker.segments import text_files
from broker.storage.checkpoints.offset_checkpoints import Key, OffsetCheckpoints
from broker.storage.checkpoints.shared_offsets import SharedOffsetCheckpoints


class Log:
    """A log, as far as checkpoints need it."""

    def __init__(self, topic: str, log_start_offset: int = 0) -> None:
        self.topic, self.partition = topic, 0
        self.log_start_offset = log_start_offset


A, B = ("a", 0), ("b", 0)


def broker(path: Path, *keys: Key) -> SharedOffsetCheckpoints:
    offsets = SharedOffsetCheckpoints(path, nullcontext)
    for key in keys:
        offsets.adopt(key)
    return offsets


def note(offsets: SharedOffsetCheckpoints, key: Key, end: int, start: int = 0) -> None:
    offsets.note(cast("Any", Log(key[0], start)), end)


def checkpoint(offsets: SharedOffsetCheckpoints) -> None:
    offsets.write(offsets.take())


def points(path: Path) -> dict[Key, int]:
    return dict(text_files.read_offsets(path / text_files.RECOVERY_POINTS))


def starts(path: Path) -> dict[Key, int]:
    return dict(text_files.read_offsets(path / text_files.LOG_START_OFFSETS))


def test_each_broker_replaces_its_own_entries_only(tmp_path: Path) -> None:
    first, second = broker(tmp_path, A), broker(tmp_path, B)
    note(first, A, 10, start=4)
    checkpoint(first)
    note(second, B, 20, start=5)
    checkpoint(second)
    note(first, A, 11, start=6)
    checkpoint(first)

    assert points(tmp_path) == {A: 11, B: 20}
    assert starts(tmp_path) == {A: 6, B: 5}


def test_a_log_that_was_left_keeps_its_entries_for_the_next_broker(tmp_path: Path) -> None:
    first, second = broker(tmp_path, A), broker(tmp_path)
    note(first, A, 10, start=4)
    checkpoint(first)
    first.leave(A)

    second.adopt(A)

    assert (second.recovery_point(A), second.log_start(A)) == (10, 4)


def test_a_broker_does_not_write_entries_of_logs_that_it_has_left(tmp_path: Path) -> None:
    first, second = broker(tmp_path, A, B), broker(tmp_path)
    note(first, A, 10)
    earlier = first.take()
    first.leave(A)
    second.adopt(A)
    note(second, A, 20, start=15)
    checkpoint(second)

    first.write(earlier)

    assert points(tmp_path) == {A: 20}
    assert starts(tmp_path) == {A: 15}


def test_a_log_that_is_opened_while_a_checkpoint_is_made_keeps_its_recovery_point(
    tmp_path: Path,
) -> None:
    first, second = broker(tmp_path, A), broker(tmp_path, B)
    note(first, A, 10)
    checkpoint(first)
    first.leave(A)
    taken = second.take()
    second.adopt(A)

    second.write(taken)

    # A compacted log has gaps below it: without it, recovery ends the log at the first gap.
    assert points(tmp_path) == {A: 10}
    assert second.written_recovery_point(A) == 10


def test_a_log_that_comes_back_while_a_checkpoint_is_made_keeps_the_recovery_point_of_the_other(
    tmp_path: Path,
) -> None:
    first, second = broker(tmp_path, A), broker(tmp_path)
    note(first, A, 10)
    taken = first.take()
    first.leave(A)
    second.adopt(A)
    note(second, A, 20)
    checkpoint(second)
    second.leave(A)
    first.adopt(A)

    first.write(taken)

    assert points(tmp_path) == {A: 20}


def test_a_forgotten_log_leaves_the_files_and_those_of_others_stay(tmp_path: Path) -> None:
    first, second = broker(tmp_path, A), broker(tmp_path, B)
    note(first, A, 10, start=4)
    checkpoint(first)
    note(second, B, 20)
    checkpoint(second)

    assert first.forget(A)
    first.write_forgotten()

    assert points(tmp_path) == {B: 20}
    assert starts(tmp_path) == {}


def test_a_log_of_a_new_topic_has_nothing_of_an_older_one_that_another_broker_had(
    tmp_path: Path,
) -> None:
    first, second = broker(tmp_path, A), broker(tmp_path)
    note(first, A, 10, start=4)
    checkpoint(first)  # and this broker crashes

    second.adopt(A)
    second.forget(A)
    second.write_forgotten()

    assert (second.recovery_point(A), second.log_start(A)) == (0, 0)
    assert (points(tmp_path), starts(tmp_path)) == ({}, {})


def test_a_lowered_recovery_point_is_lowered_in_the_file(tmp_path: Path) -> None:
    first = broker(tmp_path, A)
    note(first, A, 10)
    checkpoint(first)

    note(first, A, 7)
    first.write_forgotten()

    assert points(tmp_path) == {A: 7}


@pytest.mark.parametrize("file", [text_files.RECOVERY_POINTS, text_files.LOG_START_OFFSETS])
def test_the_files_are_those_of_one_broker(tmp_path: Path, file: str) -> None:
    alone = OffsetCheckpoints(tmp_path)
    alone.note(cast("Any", Log("a", 4)), 10)
    alone.write(alone.take())
    before = (tmp_path / file).read_bytes()

    shared = broker(tmp_path, A)
    note(shared, A, 10, start=4)
    checkpoint(shared)

    assert (tmp_path / file).read_bytes() == before
    assert OffsetCheckpoints(tmp_path).recovery_point(A) == 10

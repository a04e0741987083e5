"""A replica's log is cut at any point of its move to another directory: the copy has its bytes.

The loop, the I/O thread and the thread of the copy are this one thread; what happens at the same
time is done in between. Only a cut that is interrupted in its midst has a thread of its own.
"""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker._native.kernel import file_ops
from broker._native.log import moving, truncation
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import StorageError
from broker.storage.directories import Directories
from broker.storage.files import folder_copy
from broker.storage.files.folder_copy import FolderCopy
from broker.storage.recovery import truncation as truncating
from tests.support.batches import header
from tests.support.cut_log import CutLog, content_of, state_of
from tests.support.native_log import appended, records

COMMIT = CommitThread(1)  # one for all tests: they wait for what they make durable
BATCHES = 12  # in three segments
STEP_BYTES = 300
WAIT_S = 30


class Place(NamedTuple):
    """A log in the first of two directories, with its broker."""

    broker: CutLog
    log: PartitionLog
    path: Path

    @property
    def target(self) -> Path:
        """The other directory."""
        return self.path / "second"

    def copy(self) -> FolderCopy:
        """Begin a copy in the other directory."""
        copy = FolderCopy(self.log, self.target)
        copy.begin()
        copy.resolve()
        return copy

    def append(self, count: int) -> None:
        """Append batches that are as large as all others, with other values."""
        self.log.start_epoch(self.log.leader_epoch + 1)
        for number in range(count):
            appended(self.log, records(size=200))
            if number % 4 == 3:  # a sync takes longer than all else
                self.broker.finish(self.log)
        self.broker.finish(self.log)

    def cut(self, offset: int) -> None:
        """Cut the log, and append as much as it has lost."""
        lost = self.log.log_end_offset - offset
        self.broker.cut(self.log, offset)
        self.append(lost)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Place]:
    """Return what makes a log anew; the one before is removed."""
    monkeypatch.setattr(folder_copy, "MOVE_STEP_BYTES", STEP_BYTES)
    path = tmp_path / "now"

    def make() -> Place:
        shutil.rmtree(path, ignore_errors=True)
        for each in ("first", "second"):
            (path / each).mkdir(parents=True)
        directories = Directories(path / "first", [path / "second"])
        directories.measure = lambda each: 2 if each.name == "first" else 1
        broker = CutLog(path / "first", COMMIT, directories=directories)
        log = broker.make()
        place = Place(broker, log, path)
        place.append(BATCHES)
        broker.checkpoint()
        return place

    return make


def on_loop(work: Callable[[], object]) -> object:
    return work()


def finish(place: Place, copy: FolderCopy) -> None:
    """Copy what is left, have the log use the copy, and check it, also as a start finds it."""
    log, broker = place.log, place.broker
    while copy.step() is not None:
        pass
    before, source = state_of(log), Path(log.folder)
    assert broker.partitions.switch(copy, on_loop)
    assert log.folder == str(place.target / "topic-0")
    for base, size in moving.written(log):
        old, new = (
            (folder / f"{base:020}.log").read_bytes() for folder in (copy.left, Path(log.folder))
        )
        assert len(new) == size
        assert new == old[:size], base
    names = {each.name for each in Path(log.folder).iterdir()}
    assert names == {each.name for each in copy.left.iterdir()}
    assert state_of(log) == before
    place.append(2)
    content = content_of(log)
    assert [header(each).base_offset for each in content] == list(range(log.log_end_offset))
    directories = Directories(place.path / "first", [place.target])
    again = CutLog(place.path / "first", COMMIT, directories=directories).open()
    assert again.folder == log.folder
    assert content_of(again) == content
    assert not source.exists()


def steps_of(place: Place) -> int:
    """Return how many steps a copy takes."""
    copy, count = place.copy(), 0
    while copy.step() is not None:
        count += 1
    return count


@pytest.mark.parametrize("offset", range(BATCHES))
def test_a_log_is_cut_between_two_steps_of_its_copy(
    places: Callable[[], Place], offset: int
) -> None:
    for steps in range(steps_of(places()) + 1):
        place = places()
        copy = place.copy()
        for _ in range(steps):
            copy.step()
        place.cut(offset)
        finish(place, copy)


@pytest.mark.parametrize("first", [0, 5, 11])
@pytest.mark.parametrize("second", [0, 4, 9, 11])
def test_a_log_is_cut_twice_between_two_steps(
    places: Callable[[], Place], first: int, second: int
) -> None:
    for steps in range(0, steps_of(places()) + 1, 3):
        place = places()
        copy = place.copy()
        for _ in range(steps):
            copy.step()
        place.cut(first)
        place.cut(second)
        finish(place, copy)


@pytest.mark.parametrize("offset", [0, 7, 50])
def test_a_log_is_begun_anew_between_two_steps(places: Callable[[], Place], offset: int) -> None:
    for steps in range(steps_of(places()) + 1):
        place = places()
        copy = place.copy()
        for _ in range(steps):
            copy.step()
        place.broker.begin_anew(place.log, offset)
        for _ in range(3):
            appended(place.log, records(size=200))
            place.broker.finish(place.log)
        while copy.step() is not None:
            pass
        assert place.broker.partitions.switch(copy, on_loop)
        files = {each.name for each in Path(place.log.folder).glob("*.log")}
        assert files == {f"{base:020}.log" for base, _ in moving.written(place.log)}
        found = [header(each).base_offset for each in content_of(place.log)]
        assert found == [offset, offset + 1, offset + 2]


def test_what_a_cut_has_left_is_not_copied_again(places: Callable[[], Place]) -> None:
    place = places()
    copy = place.copy()
    while copy.step() is not None:
        pass
    size, last = copy.size, moving.written(place.log)[-1]

    place.broker.cut(place.log, place.log.log_end_offset - 1)
    place.append(1)
    copied = copy.step()

    assert copied is not None
    assert 0 < copied < last[1]
    assert copy.size == size
    finish(place, copy)


class Gates:
    """Counts operations of a module, and does something at one of them."""

    def __init__(self, at: int, what: Callable[[], object]) -> None:
        self.count = 0
        self._at = at
        self._what = what
        self._is_within = False

    def on(self, module: Any) -> "Operations":
        return Operations(self, module)

    def pass_by(self) -> None:
        if self._is_within:
            return
        if self.count == self._at:
            self._is_within = True
            self._what()
            self._is_within = False
        self.count += 1


class Operations:
    """The functions of a module, each of which passes by a gate first."""

    def __init__(self, gates: Gates, module: Any) -> None:
        self._gates = gates
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found) or isinstance(found, type):
            return found

        def gated(*values: Any, **named: Any) -> Any:
            self._gates.pass_by()
            return found(*values, **named)

        return gated


def stepped(copy: FolderCopy) -> None:
    """Copy a piece, as the thread of the copy does it while the log may be cut."""
    try:
        copy.step()
    except (FileNotFoundError, StorageError):
        assert copy.is_disturbed


@pytest.mark.slow("a log of its own for each operation")
@pytest.mark.parametrize("offset", [0, 6, 11])
def test_a_log_is_cut_at_any_operation_of_its_copy(
    places: Callable[[], Place], monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    number = 0
    while True:
        place = places()
        copy = place.copy()
        gates = Gates(number, lambda place=place: place.cut(offset))  # type: ignore[misc]
        with monkeypatch.context() as patch:
            patch.setattr(folder_copy, "file_ops", gates.on(file_ops))
            for _ in range(40):
                stepped(copy)
        finish(place, copy)
        if gates.count <= number:
            return
        number += 1


class Interrupted:
    """A cut in a thread of its own, which stops at one of its operations until it may go on."""

    def __init__(self, place: Place, offset: int, at: int) -> None:
        self._place = place
        self._offset = offset
        self._has_stopped = threading.Event()
        self._may_go_on = threading.Event()
        self._thread = threading.Thread(target=self._cut)
        self.gates = Gates(at, self._stop)
        self.has_begun = False

    def _cut(self) -> None:
        partitions, log = self._place.broker.partitions, self._place.log
        try:
            for _ in partitions.read_before_cut(log, self._offset):
                pass
            partitions.truncate(log, self._offset)
        finally:
            self._has_stopped.set()

    def _stop(self) -> None:
        self._has_stopped.set()
        assert self._may_go_on.wait(WAIT_S)

    def begin(self) -> None:
        """Run up to that operation, or to the end."""
        self.has_begun = True
        self._place.log.begin_loading()
        assert self._place.log.hold()
        self._thread.start()
        assert self._has_stopped.wait(WAIT_S)

    def end(self) -> None:
        """Run to the end."""
        self._may_go_on.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        self._place.log.end_hold()
        self._place.log.end_loading()


@pytest.mark.parametrize("copied", range(0, 30, 3))
def test_a_step_meets_any_state_within_a_cut(
    places: Callable[[], Place], monkeypatch: pytest.MonkeyPatch, copied: int
) -> None:
    """The step has begun before the cut, ends within it, and others follow within and after it."""
    offset = 6
    number = 0
    while True:
        place = places()
        copy = place.copy()
        cut = Interrupted(place, offset, number)
        gates = Gates(copied, cut.begin)
        with monkeypatch.context() as patch:
            patch.setattr(truncating, "file_ops", cut.gates.on(file_ops))
            patch.setattr(truncating, "truncation", cut.gates.on(truncation))
            patch.setattr(folder_copy, "file_ops", gates.on(file_ops))
            while not cut.has_begun:
                stepped(copy)
            assert copy.step() is None, "a thread has the log"
            assert not place.broker.partitions.switch(copy, on_loop)
            cut.end()
        place.append(BATCHES - offset)
        finish(place, copy)
        if cut.gates.count <= number:
            return
        number += 1


class Asking:
    """A loop that asks for a cut before one of the things that a switch does on it."""

    def __init__(self, log: PartitionLog, at: int) -> None:
        self._log = log
        self._left = at
        self.is_held: bool | None = None  # for the cut; None: it has not been asked for

    def __call__(self, work: Callable[[], object]) -> object:
        if self._left == 0:
            self._log.begin_loading()
            self.is_held = self._log.hold()
            assert self.is_held is not self._log.is_switching
        self._left -= 1
        return work()


def test_a_segment_that_is_read_again_by_a_cut_is_not_whole(
    places: Callable[[], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that has begun before the cut sees how much of a segment the cut has read so far."""
    place = places()
    copy = place.copy()
    assert copy.step() == STEP_BYTES
    written = moving.written

    def read_in_part(log: PartitionLog) -> list[tuple[int, int]]:
        log.begin_loading()
        return [(base, STEP_BYTES) for base, _ in written(log)]

    with monkeypatch.context() as patch:
        patch.setattr(folder_copy.moving, "written", read_in_part)  # type: ignore[attr-defined]
        copy.step()
    place.log.end_loading()

    finish(place, copy)


def test_a_log_is_cut_at_any_moment_of_its_switch(places: Callable[[], Place]) -> None:
    """One that is held before its cut is cut afterwards; one that is being cut is not switched."""
    offset = 5
    outcomes = set()
    for number in range(BATCHES):
        place = places()
        log, broker = place.log, place.broker
        copy = place.copy()
        while copy.step() is not None:
            pass
        loop = Asking(log, number)
        is_switched = broker.partitions.switch(copy, loop)
        if loop.is_held is None:
            assert is_switched
            break
        broker.finish(log)  # with what was appended while it was held
        assert log.hold()
        for _ in broker.partitions.read_before_cut(log, offset):
            pass
        broker.partitions.truncate(log, offset)
        log.end_hold()
        log.end_loading()
        assert log.log_end_offset == offset
        outcomes.add((loop.is_held, is_switched))
        if is_switched:
            place.append(3)
            directories = Directories(place.path / "first", [place.target])
            again = CutLog(place.path / "first", COMMIT, directories=directories).open()
            assert again.folder == str(place.target / "topic-0")
            assert content_of(again) == content_of(log)
        else:
            place.append(BATCHES - offset)
            finish(place, copy)
    assert outcomes == {(True, False), (False, False), (False, True)}


@pytest.mark.parametrize("durability", ["group-commit", "os"])
def test_a_role_that_begins_while_a_log_is_held_makes_nothing_visible(
    places: Callable[[], Place], durability: str
) -> None:
    place = places()
    log, broker = place.log, place.broker
    log.configure(is_group_commit=durability == "group-commit")
    copy = place.copy()
    end, seen = log.log_end_offset, []

    def busy_loop(work: Callable[[], object]) -> object:
        result = work()
        if log.is_switching:
            appended(log, records(size=200))
            broker.turn.end()
            log.lead(log.leader_epoch + 1, 1, [1, 2], [1, 2])
            log.report(2, end, -1)
            seen.append((log.local_end, log.kept_offset, log.high_watermark))
            log.follow(log.leader_epoch)
            log.lead(log.leader_epoch + 1, 1, [1], [1])
            seen.append((log.local_end, log.kept_offset, log.high_watermark))
        return result

    while copy.step() is not None:
        pass
    assert broker.partitions.switch(copy, busy_loop)
    assert len(seen) > 6
    assert {high_watermark for _, _, high_watermark in seen} == {end}
    assert {kept for _, kept, _ in seen} == {end}
    broker.finish(log)
    assert log.high_watermark == log.log_end_offset == end + len(seen) // 2

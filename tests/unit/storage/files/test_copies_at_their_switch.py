"""The copy of a log that moves is whole, and on the disk, when the log begins to use it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker._native.kernel import file_ops
from broker._native.log import moving
from broker.storage.files import folder_copy
from tests.support.native_log import appended, records
from tests.unit.storage.files.test_copies_of_cut_logs import Place, on_loop, places

__all__ = ["places"]
TAIL_BYTES = 100


class Names:
    """file_ops, with the names in a folder that a power cut would leave."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._durable: set[str] = set()
        self.at_rename: list[set[str]] = []  # when a folder gets another name

    def __getattr__(self, name: str) -> Any:
        return getattr(file_ops, name)

    def sync_folder(self, path: str) -> None:
        if path == self._folder:
            self._durable = set(file_ops.list_folder(path))
        file_ops.sync_folder(path)

    def rename(self, old: str, new: str) -> None:
        self.at_rename.append(set(self._durable))
        file_ops.rename(old, new)


def test_a_segment_that_began_before_the_hold_has_a_durable_name(
    places: Callable[[], Place],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its records were acknowledged, and no sync of the log would make the name durable."""
    place = places()
    log, copy = place.log, place.copy()
    while copy.step() is not None:
        pass
    names = Names(copy.folder)
    monkeypatch.setattr(folder_copy, "file_ops", names)
    before = len(moving.written(log))

    def busy_loop(work: Callable[[], object]) -> object:
        if len(moving.written(log)) == before:
            for _ in range(4):
                appended(log, records(size=200))
            place.broker.finish(log)
        return work()

    assert place.broker.partitions.switch(copy, busy_loop)

    assert len(moving.written(log)) > before
    assert log.high_watermark == log.log_end_offset
    logs = {f"{base:020}.log" for base, _ in moving.written(log)}
    assert logs <= names.at_rename[0], "the old folder gets its `-moved` name"


def test_a_whole_segment_that_a_cut_has_found_shorter_is_copied_again(
    places: Callable[[], Place],
) -> None:
    place = places()
    log, copy = place.log, place.copy()
    while copy.step() is not None:
        pass
    base, size = moving.written(log)[0]
    for each in Path(log.folder).glob("*.snapshot"):
        each.unlink()  # so that the cut reads this segment, too
    file_ops.truncate(str(Path(log.folder) / f"{base:020}.log"), size - TAIL_BYTES)

    place.broker.cut(log, log.log_end_offset - 1)
    assert moving.written(log)[0] == (base, size - TAIL_BYTES)
    while copy.step() is not None:
        pass

    assert place.broker.partitions.switch(copy, on_loop)
    assert file_ops.size(str(Path(log.folder) / f"{base:020}.log")) == size - TAIL_BYTES

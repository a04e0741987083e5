"""Segments are found and checked: every flipped bit, what a digest adds, and changing files."""

import random
import shutil
from pathlib import Path

import pytest

from broker.model.errors import ConfigError
from broker.segments import text_files, verification
from broker.segments.digests import Digest
from broker.segments.integrity import Verdict
from broker.segments.names import DIGEST
from broker.segments.verification import LocatedSegment
from broker.storage.checkpoints import checkpoint
from broker.storage.files import digests, sidecar
from tests.support.segment_files import segment_files, stored, write_ascending

FLIPS = 1_000
OUTSIDE_THE_CRC = 21  # bytes at the start of a batch: base offset, length, epoch, magic, CRC
CHECKED_MS = 1_700_000_000_000


def looked_at(place: LocatedSegment) -> Verdict:
    found = verification.verify(place, lambda _: None)
    assert found is not None
    return found


def closed_with_digests(path: Path) -> list[LocatedSegment]:
    """Return the closed segments of a log, each with its digest."""
    places = verification.find(write_ascending(path, 60))[:-1]
    for place in places:
        found = looked_at(place)
        assert found.is_valid
        digest = Digest(found.xxh3, found.size, CHECKED_MS)
        assert digests.write(place.folder, place.base_offset, digest, found.inode)
    return places


def flips(places: list[LocatedSegment], seed: int) -> list[tuple[LocatedSegment, int, int]]:
    """Return a thousand flips: segment, byte, bit."""
    chosen = random.Random(seed)
    return [
        (place := chosen.choice(places), chosen.randrange(place.file.stat().st_size),
         chosen.randrange(8))
        for _ in range(FLIPS)
    ]  # fmt: skip


def flipped(place: LocatedSegment, position: int, bit: int) -> Verdict:
    """Return the result with one bit flipped, in place and then restored."""
    with place.file.open("r+b") as file:
        file.seek(position)
        [byte] = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))
        file.flush()
        found = looked_at(place)
        file.seek(position)
        file.write(bytes([byte]))
    return found


def test_a_thousand_random_flips_are_all_found_against_the_digest(tmp_path: Path) -> None:
    places = closed_with_digests(tmp_path)
    for place, position, bit in flips(places, 1):
        damages = flipped(place, position, bit).damages
        assert any(each.position <= position < each.end_position for each in damages), (
            place.name,
            position,
            bit,
        )


def test_without_a_digest_only_flips_in_offsets_and_epochs_go_undetected(tmp_path: Path) -> None:
    places = closed_with_digests(tmp_path)
    starts = {
        place.base_offset: [each.position for each in stored(place.folder) if each.segment
                            == place.base_offset]
        for place in places
    }  # fmt: skip
    for place in places:
        sidecar.remove(place.folder, [place.base_offset])
    unseen = 0
    for place, position, bit in flips(places, 2):
        if flipped(place, position, bit).is_valid:
            unseen += 1
            within = position - max(each for each in starts[place.base_offset] if each <= position)
            assert within < 8 or 12 <= within < 16, within  # base offset, leader epoch
    assert unseen < FLIPS * 12 / 1_051 * 3


def test_a_flip_found_only_by_the_digest_damages_the_whole_segment(tmp_path: Path) -> None:
    place = closed_with_digests(tmp_path)[0]
    last = [each for each in stored(place.folder) if each.segment == 0][-1]
    found = flipped(place, last.position + 15, 0)  # of an epoch that nothing follows
    [damage] = found.damages
    assert (damage.position, damage.end_position) == (0, found.size)
    assert (damage.offset, damage.end_offset) == (0, place.end_offset)


def test_a_changed_digest_file_is_not_reported_as_damage_of_the_segment(tmp_path: Path) -> None:
    place = closed_with_digests(tmp_path)[0]
    file = place.file.with_suffix(DIGEST)
    file.write_bytes(file.read_bytes().replace(b"a", b"b").replace(b"1", b"2"))
    found = looked_at(place)
    assert found.is_valid
    assert found.recorded is None


def test_the_digest_is_ignored_while_files_are_swapped(tmp_path: Path) -> None:
    place = closed_with_digests(tmp_path)[0]
    digests.write(
        place.folder, place.base_offset, Digest(1, 2, CHECKED_MS), place.file.stat().st_ino
    )
    assert not looked_at(place).is_valid
    checkpoint.write_swap(place.folder / f"{0:020}.swap", 0, [190])
    assert looked_at(place).is_valid


def test_a_missing_segment_is_not_damage(tmp_path: Path) -> None:
    place = closed_with_digests(tmp_path)[0]
    place.file.unlink()
    assert verification.verify(place, lambda _: None) is None


def test_segments_are_found_by_file_by_folder_and_by_data_directory(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path)
    files = segment_files(folder)
    (tmp_path / "other-0-stray").mkdir()
    shutil.copy(files[0], tmp_path / "other-0-stray")
    assert [place.file for place in verification.find(files[1])] == [files[1]]
    assert [place.file for place in verification.find(folder)] == files
    found = verification.find(tmp_path)
    assert [place.file for place in found] == files
    assert [place.name for place in found] == [f"topic-0/{file.name}" for file in files]
    assert [place.is_active for place in found] == [False] * (len(files) - 1) + [True]


def test_after_a_clean_stop_the_last_segment_is_checked_as_closed(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path)
    last = segment_files(folder)[-1]
    last.write_bytes(last.read_bytes()[:-1])
    found = looked_at(verification.find(tmp_path)[-1])
    assert found.is_valid
    assert found.tail_bytes > 0
    checkpoint.write_clean_shutdown(tmp_path)
    assert not looked_at(verification.find(tmp_path)[-1]).is_valid


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_path_without_segments_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=name):
        verification.find(tmp_path / name)


def test_a_data_directory_without_topics_has_no_segments(tmp_path: Path) -> None:
    (tmp_path / text_files.META_PROPERTIES).write_text("version=1")
    assert verification.find(tmp_path) == []


def test_progress_adds_up_to_the_bytes_checked(tmp_path: Path) -> None:
    progress: list[int] = []
    place = verification.find(write_ascending(tmp_path))[0]
    verification.verify(place, progress.append)
    assert sum(progress) == place.file.stat().st_size

"""The names of the files in a partition's folder."""

import pytest

from broker.segments.names import LOG, file_name, is_offset_file, offset_of, offsets_of

OTHER = [
    "00000000000000000042.log.deleted",
    "42.log",
    "0000000000000000042.log",
    "000000000000000000042.log",
    "00000000000000000042.index",
    "0000000000000000004x.log",
    "\u0664" * 20 + ".log",
    "",
]


def test_a_file_name_has_the_base_offset_in_twenty_digits() -> None:
    assert file_name(42, LOG) == "00000000000000000042.log"
    assert is_offset_file("00000000000000000042.log", LOG)
    assert offset_of("00000000000000000042.log", LOG) == 42


@pytest.mark.parametrize("name", OTHER)
def test_another_name_is_refused(name: str) -> None:
    assert not is_offset_file(name, LOG)
    with pytest.raises(ValueError, match="20 digits"):
        offset_of(name, LOG)


def test_the_offsets_of_a_folder_are_those_of_one_suffix_in_order() -> None:
    names = [file_name(base, LOG) for base in (300, 7, 0)]

    assert offsets_of([*names, *OTHER], LOG) == [0, 7, 300]

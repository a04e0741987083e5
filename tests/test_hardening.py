"""The native modules as they are installed: what a compiler and a linker can do against overruns.

stack     a value before each return address, checked by each function with an array
sizes     copies into memory of a known size are checked (_FORTIFY_SOURCE)
linking   all addresses are found at the start, and their table is read-only from then on
memory    nothing is writable and executable, and no stack is executable
places    modules may be anywhere, and look for libraries nowhere else than the system does

Each is read in the file, so that a flag that a compiler ignores, or a build forgets, is missed.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from broker import _native

SHARED_OBJECT = 3
LOAD, DYNAMIC, STACK, RELRO = 1, 2, 0x6474E551, 0x6474E552
EXECUTABLE, WRITABLE = 1, 2
# Entries of the dynamic section, and flags in them.
RPATH, TEXT_RELOCATIONS, BIND_NOW, FLAGS, RUNPATH, FLAGS_1 = 15, 22, 24, 30, 29, 0x6FFFFFFB
FLAG_TEXT_RELOCATIONS, FLAG_BIND_NOW, FLAG_1_NOW = 4, 8, 1
CHECKED_STACK = b"\0__stack_chk_fail\0"


class Segment(NamedTuple):
    """A program header."""

    kind: int
    flags: int
    offset: int
    size: int


def segments(data: bytes) -> Iterator[Segment]:
    """Yield the program headers of a 64-bit ELF file."""
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(start, start + size * count, size):
        kind, flags, offset, _, _, in_file, _, _ = struct.unpack_from("<IIQQQQQQ", data, at)
        yield Segment(kind, flags, offset, in_file)


def dynamic(data: bytes) -> dict[int, int]:
    """Return the entries of the dynamic section; of several with a tag the last."""
    [found] = [each for each in segments(data) if each.kind == DYNAMIC]
    return dict(struct.iter_unpack("<QQ", data[found.offset : found.offset + found.size]))


def faults(data: bytes) -> list[str]:
    """Return what a module lacks."""
    headers, entries = list(segments(data)), dynamic(data)
    kinds = {each.kind for each in headers}
    flags, flags_1 = entries.get(FLAGS, 0), entries.get(FLAGS_1, 0)
    is_bound = BIND_NOW in entries or flags & FLAG_BIND_NOW or flags_1 & FLAG_1_NOW
    moves_code = TEXT_RELOCATIONS in entries or flags & FLAG_TEXT_RELOCATIONS
    stacks = [each for each in headers if each.kind == STACK]
    both = WRITABLE | EXECUTABLE
    found = {
        "it is no shared object": struct.unpack_from("<H", data, 16)[0] != SHARED_OBJECT,
        "its stack may be executable": not stacks or any(e.flags & EXECUTABLE for e in stacks),
        "memory is writable and executable": any(e.flags & both == both for e in headers),
        "its addresses stay writable": RELRO not in kinds,
        "its addresses are found late": not is_bound,
        "its code is changed at the start": moves_code,
        "it looks for libraries elsewhere": bool({RPATH, RUNPATH} & entries.keys()),
        "its stack is not checked": CHECKED_STACK not in data,
    }
    return [fault for fault, has_it in found.items() if has_it]


def modules() -> list[Path]:
    """Return the installed modules."""
    found = sorted(Path(_native.__path__[0]).rglob("*.so"))
    assert len(found) > 50
    return found


def test_every_module_is_built_with_all_protection() -> None:
    found = {each.name: faults(each.read_bytes()) for each in modules()}

    assert {name: lacks for name, lacks in found.items() if lacks} == {}


def test_sizes_of_copies_are_checked() -> None:
    """Only where the compiler cannot tell that a copy fits."""
    checked = {each.name.partition(".")[0] for each in modules() if b"_chk\0" in each.read_bytes()}

    assert len(checked) > 1


def changed(data: bytes, kind: int, *, flags: int = 0, new_kind: int | None = None) -> bytes:
    """Return a file with other flags, or another kind, of a program header."""
    (start,) = struct.unpack_from("<Q", data, 32)
    size, _ = struct.unpack_from("<HH", data, 54)
    place = [each.kind for each in segments(data)].index(kind)
    copy = bytearray(data)
    given = kind if new_kind is None else new_kind
    struct.pack_into("<II", copy, start + place * size, given, flags)
    return bytes(copy)


def bound_late(data: bytes) -> bytes:
    """Return a file whose addresses are found when they are needed."""
    [found] = [each for each in segments(data) if each.kind == DYNAMIC]
    copy = bytearray(data)
    for at in range(found.offset, found.offset + found.size, 16):
        (tag,) = struct.unpack_from("<Q", copy, at)
        if tag in {FLAGS, FLAGS_1, BIND_NOW}:
            struct.pack_into("<QQ", copy, at, FLAGS, 0)
    return bytes(copy)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda data: changed(data, STACK, flags=7), "its stack may be executable"),
        (lambda data: changed(data, STACK, new_kind=0), "its stack may be executable"),
        (lambda data: changed(data, LOAD, flags=7), "memory is writable and executable"),
        (lambda data: changed(data, RELRO, new_kind=0), "its addresses stay writable"),
        (bound_late, "its addresses are found late"),
        (lambda data: data.replace(b"_chk_fail", b"_got_away"), "its stack is not checked"),
    ],
)
def test_a_module_without_one_of_them_is_found(
    change: Callable[[bytes], bytes], fault: str
) -> None:
    assert fault in faults(change(modules()[0].read_bytes()))

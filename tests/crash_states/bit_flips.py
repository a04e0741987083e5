"""A bit that the disk has flipped in a record known to have been durable.

After the crash one bit of one plain batch differs, in a segment that was sealed before. The start
has to serve all others: the effects of the crash are limited to the end of the log.
"""

from pathlib import PurePath
from random import Random
from typing import NamedTuple

from broker._native.log import seal
from tests.crash_states.disk import State
from tests.crash_states.expected_state import ExpectedState
from tests.support.batches import header

SHARE = 0.1  # of the checked states
FIRST_COVERED = 21  # bytes of a batch from here on are under its CRC
NOT_PLAIN = 0x30  # bits of the attributes: transactional, control


class Flip(NamedTuple):
    """The records that the bit makes unreadable."""

    log: str  # topic-partition
    offset: int
    end_offset: int


def flipped(state: State, expected: ExpectedState, rng: Random) -> tuple[State, Flip | None]:
    """Return the state with one bit flipped, if a segment has a suitable batch."""
    # (Topics of one name follow each other, and may be of both kinds.)
    compacted = {known.name for known in expected.logs.values() if known.is_compacted}
    plain = {known.name for known in expected.logs.values()} - compacted
    found = [
        (path, position)
        for path, content in state.items()
        if path.endswith(".log") and content and PurePath(path).parent.name in plain
        for position in _batches(content)
        if _is_sealed(state, path) and _is_plain(content, position)
    ]
    if not found:
        return state, None
    path, position = rng.choice(found)
    content = bytearray(state[path] or b"")
    batch = header(bytes(content), position)
    place = position + rng.randrange(FIRST_COVERED, batch.size)
    content[place] ^= 1 << rng.randrange(8)
    flip = Flip(PurePath(path).parent.name, batch.base_offset, batch.last_offset + 1)
    return {**state, path: bytes(content)}, flip


def _is_sealed(state: State, path: str) -> bool:
    """Return whether the disk still has the mark that this segment was synced."""
    folder = PurePath(path).parent
    note = state.get(str(folder / seal.FILE_NAME)) or b""
    offset = int(note[:20]) if note[:20].isdigit() else 0
    bases = [
        int(PurePath(each).stem)
        for each in state
        if each.endswith(".log") and PurePath(each).parent == folder
    ]
    following = [base for base in bases if base > int(PurePath(path).stem)]
    return bool(following) and note == seal.note_text(offset) and min(following) <= offset


def _batches(content: bytes) -> list[int]:
    positions = []
    position = 0
    while position + 61 <= len(content):
        length = int.from_bytes(content[position + 8 : position + 12])
        if length < 49:
            break
        positions.append(position)
        position += 12 + length
    return positions


def _is_plain(content: bytes, position: int) -> bool:
    """Return whether it is not transactional and its producer needs no acknowledgement."""
    attributes = content[position + 22]
    producer_id = int.from_bytes(content[position + 43 : position + 51], signed=True)
    return not attributes & NOT_PLAIN and producer_id < 0

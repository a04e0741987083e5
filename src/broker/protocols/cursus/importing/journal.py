"""The journal of transactions of the original Cursus, `__transaction_state.journal`.

    u32 length | JSON {"version": 1, "transaction": {...}} | u32 CRC-32 of the JSON

The last record of a transactional id counts. Older records have the transaction without the outer
object. The last record may be incomplete: its change was not acknowledged.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from zlib import crc32

from broker.model.limits import MIB
from broker.protocols.importing.report import Damage

FILE: Final = "__transaction_state.journal"
COMMITTED: Final = "committed"
COMMITTING: Final = "committing"
_RECORD_BYTES_MAX: Final = 32 * MIB
_WORD: Final = 4


class Outcome(NamedTuple):
    """The last that is known of a transactional id."""

    epoch: int
    state: str
    offsets: Mapping[str, Mapping[str, Mapping[int, int]]]  # by group, topic and partition


def read(folder: Path) -> tuple[dict[str, Outcome], list[Damage]]:
    """Return the outcome of each transactional id, and what is damaged; raise OSError."""
    outcomes: dict[str, Outcome] = {}
    damages: list[Damage] = []
    try:
        stream = (folder / FILE).open("rb")
    except FileNotFoundError:
        return outcomes, damages
    with stream:
        for position, data in _records(stream):
            try:
                name, outcome = _outcome(data)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                damages.append(Damage(FILE, position, f"the record is damaged: {error}"))
            else:
                outcomes[name] = outcome
    return outcomes, damages


def _records(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield each record with its position; no bytes for one whose checksum is wrong."""
    position = 0
    while len(head := stream.read(_WORD)) == _WORD:
        size = int.from_bytes(head, "big")
        if not 0 < size <= _RECORD_BYTES_MAX:
            yield position, b""
            return
        data, checksum = stream.read(size), stream.read(_WORD)
        if len(checksum) < _WORD:
            return
        yield position, data if crc32(data) == int.from_bytes(checksum, "big") else b""
        position += size + 2 * _WORD


def _outcome(data: bytes) -> tuple[str, Outcome]:
    if not data:
        raise ValueError("its checksum does not match, or its length cannot be")
    found: dict[str, Any] = json.loads(data)
    transaction = found.get("transaction") or found
    offsets: dict[str, dict[str, dict[int, int]]] = {}
    for each in transaction.get("offsets") or ():
        partitions = offsets.setdefault(each["Group"], {}).setdefault(each["Topic"], {})
        partitions[int(each["Partition"])] = int(each["Offset"])
    outcome = Outcome(int(transaction["epoch"]), str(transaction["state"]), offsets)
    return str(transaction["id"]), outcome

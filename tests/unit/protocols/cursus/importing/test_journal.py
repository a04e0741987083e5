"""The journal of the original Cursus's transactions."""

import json
import struct
from pathlib import Path
from zlib import crc32

from broker.protocols.cursus.importing import journal
from broker.protocols.cursus.importing.journal import Outcome
from tests.support import cursus_directories
from tests.support.cursus_directories import transaction


def test_the_last_record_of_a_transaction_counts(tmp_path: Path) -> None:
    cursus_directories.journal(
        tmp_path,
        transaction("a", "open", t=3),
        transaction("b", "aborted", 4),
        transaction("a", "committed", 1, t=5),
    )

    assert journal.read(tmp_path) == (
        {"a": Outcome(1, "committed", {"g": {"t": {0: 5}}}), "b": Outcome(4, "aborted", {})},
        [],
    )


def test_a_record_without_the_outer_object_is_read(tmp_path: Path) -> None:
    file = cursus_directories.journal(tmp_path)
    payload = json.dumps(transaction("a", "open")).encode()
    checksum = crc32(payload)
    file.write_bytes(struct.pack(">I", len(payload)) + payload + struct.pack(">I", checksum))

    assert journal.read(tmp_path) == ({"a": Outcome(0, "open", {})}, [])


def test_a_last_record_that_is_incomplete_is_not_in_force(tmp_path: Path) -> None:
    file = cursus_directories.journal(tmp_path, transaction("a", "open"))
    whole = file.read_bytes()

    for size in range(len(whole)):
        file.write_bytes(whole + whole[:size])
        assert journal.read(tmp_path) == ({"a": Outcome(0, "open", {})}, [])


def test_damage_is_reported_and_what_is_behind_it_is_read(tmp_path: Path) -> None:
    file = cursus_directories.journal(tmp_path, transaction("a", "open"))
    damaged = bytearray(file.read_bytes())
    damaged[10] ^= 1
    file = cursus_directories.journal(tmp_path, transaction("b", "open"), {"id": "c"})
    file.write_bytes(bytes(damaged) + file.read_bytes() + struct.pack(">I", 1 << 31))

    outcomes, damages = journal.read(tmp_path)

    assert list(outcomes) == ["b"]
    assert len(damages) == 3
    assert damages[0].position == 0


def test_there_may_be_no_journal(tmp_path: Path) -> None:
    assert journal.read(tmp_path) == ({}, [])

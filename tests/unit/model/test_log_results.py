"""The statuses of an append are those of native code, with the same names."""

import re
from pathlib import Path

from broker.model.log_results import AppendStatus

NATIVE = Path(__file__).parents[3] / "src" / "_native"
ENUMS = {  # by the base of their numbers; and the members that are no refusal of a batch
    10: (NATIVE / "records" / "record_batch.pxd", "BatchStatus", {"BATCH_OK"}),
    20: (
        NATIVE / "log" / "producer_state.pxd",
        "SequenceStatus",
        {"SEQUENCE_NEXT", "SEQUENCE_DUPLICATE"},
    ),
    30: (
        NATIVE / "log" / "turn.pxd",
        "LogStatus",
        {
            "LOG_OK",
            "LOG_OUT_OF_RANGE",
            "LOG_TIMED_OUT",
            "LOG_CORRUPT",
            "LOG_GAP",
            "LOG_NOT_REPLICA",
        },
    ),
}


def test_every_native_refusal_of_a_batch_has_its_status() -> None:
    native = {
        name: base + number
        for base, (file, enum, others) in ENUMS.items()
        for number, name in enumerate(members(file, enum))
        if name not in others
    }

    assert native == {each.name: each for each in AppendStatus if each >= min(ENUMS)}


def members(file: Path, enum: str) -> list[str]:
    """Return the names of a native enum, which are numbered from 0 on."""
    _, _, after = file.read_text().partition(f"cdef enum {enum}:\n")
    names: list[str] = re.findall(r"^    ([A-Z_]+)\b", after.partition("\n\n")[0], re.MULTILINE)
    return names

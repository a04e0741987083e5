"""Options that every import command has."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.protocols.import_command import ImportOption

FOREVER: Final = -1  # of --retention
AS_BROKER: Final = -2
_RETENTION_MS_MAX: Final = 10**18

RETENTION: Final = ImportOption(
    "retention",
    "How many milliseconds topics that are created keep their records; -1: for ever,"
    " -2: as the broker is configured (default: -1).",
    FOREVER,
    range(AS_BROKER, _RETENTION_MS_MAX + 1),
)
DRY_RUN: Final = ImportOption(
    "dry-run",
    "Read all files and look whether the topics could be written, but change nothing.",
    0,
    None,
)


class Wanted(NamedTuple):
    """What the options say."""

    retention_ms: int = FOREVER
    is_dry_run: bool = False


def wanted(options: Mapping[str, int]) -> Wanted:
    """Return what RETENTION and DRY_RUN say on a command line."""
    return Wanted(options["retention"], bool(options["dry_run"]))


def retention_configs(retention_ms: int) -> dict[str, str]:
    """Return the settings of topics that are created; without a limit they keep everything."""
    if retention_ms == AS_BROKER:
        return {}
    configs = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
    return configs | ({"retention.bytes": "-1"} if retention_ms == FOREVER else {})

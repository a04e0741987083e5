"""The features of the cluster and their levels (KIP-584): what clients may build upon.

A level is final from the start: this broker was made for it, and there is no other to agree with.
It is never lowered, not even by another version of polylog, so the sum of all levels counts their
changes.
"""

from typing import Final, NamedTuple

from broker.protocols.kafka.api import Fields


class Feature(NamedTuple):
    """One feature: the levels that this broker could work at, and the one it does."""

    name: str
    lowest: int
    highest: int
    level: int


FEATURES: Final[dict[str, Feature]] = {
    feature.name: feature
    for feature in (
        # Kafka's release whose features the APIs are those of, as tools show it: 4.3-IV0.
        Feature("metadata.version", 30, 30, 30),
        Feature("group.version", 0, 1, 1),  # 1: groups of the consumer protocol (KIP-848)
        # Producers add partitions by writing, and each end raises their epoch (KIP-890).
        Feature("transaction.version", 0, 2, 2),
    )
}
EPOCH: Final = sum(feature.level for feature in FEATURES.values())


def supported(*, with_lowest_0: bool) -> list[Fields]:
    """The supported levels; clients before ApiVersions v4 fail on one that begins at 0."""
    return [
        {
            "name": feature.name,
            "min_version": feature.lowest,
            "max_version": feature.highest,
        }
        for feature in FEATURES.values()
        if with_lowest_0 or feature.lowest > 0
    ]


def finalized() -> list[Fields]:
    """The levels in force."""
    return [
        {
            "name": feature.name,
            "min_version_level": feature.level,
            "max_version_level": feature.level,
        }
        for feature in FEATURES.values()
        if feature.level > 0
    ]

"""The features of the cluster and their finalized levels (KIP-584).

Levels are fixed: there is no other broker that could have a different one. No version of Polylog
lowers a level, so the sum of all levels is used as the epoch of the finalized features.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from broker.codec import bodies


class Feature(NamedTuple):
    """One feature: the supported levels, and the finalized one."""

    name: str
    lowest: int
    highest: int
    level: int


FEATURES: Final[dict[str, Feature]] = {
    feature.name: feature
    for feature in (
        # The Kafka release that the APIs match; tools show 4.3-IV0.
        Feature("metadata.version", 30, 30, 30),
        Feature("group.version", 0, 1, 1),  # 1: groups of the consumer protocol (KIP-848)
        # 2: a write adds its partition, EndTxn increments the producer epoch (KIP-890).
        Feature("transaction.version", 0, 2, 2),
    )
}
EPOCH: Final = sum(feature.level for feature in FEATURES.values())


def supported(*, with_lowest_0: bool) -> "list[bodies.ApiVersionsResponseSupportedFeature]":
    """Return the supported levels; ApiVersions before v4 cannot have a lowest level of 0."""
    return [
        {
            "name": feature.name,
            "min_version": feature.lowest,
            "max_version": feature.highest,
        }
        for feature in FEATURES.values()
        if with_lowest_0 or feature.lowest > 0
    ]


def finalized() -> "list[bodies.ApiVersionsResponseFinalizedFeature]":
    """Return the finalized levels."""
    return [
        {
            "name": feature.name,
            "min_version_level": feature.level,
            "max_version_level": feature.level,
        }
        for feature in FEATURES.values()
        if feature.level > 0
    ]

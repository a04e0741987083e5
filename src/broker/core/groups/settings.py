"""The settings of groups of all types, which an operator may change."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from broker.model import limits
from broker.model.settings import GROUP_SETTINGS


class MigrationPolicy(Enum):
    """Which groups with live members may be converted."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in {MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL}

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group again."""
        return self in {MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL}


def default_group_setting(_group_id: str, name: str) -> int:
    """Return the default value of a group configuration key."""
    default = GROUP_SETTINGS[name].setting.default
    assert type(default) is int  # all settings that groups read are integers
    return default


class ConsumerSettings(NamedTuple):
    """The configurable limits and intervals: Kafka's group.consumer.*."""

    # Returns the effective value of a group's key (consumer.*), by group id and key.
    group_setting: Callable[[str, str], int] = default_group_setting
    members_max: int = limits.MEMBERS_PER_GROUP_MAX
    assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


class GroupSettings(NamedTuple):
    """The configurable limits and intervals: Kafka's group.*, offset.* and offsets.*."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = limits.MEMBERS_PER_GROUP_MAX
    metadata_bytes_max: int = limits.GROUP_METADATA_BYTES_MAX
    offset_metadata_bytes_max: int = limits.OFFSET_METADATA_BYTES_MAX
    offsets_max: int = limits.OFFSETS_PER_GROUP_MAX
    memory_bytes_max: int = 1 << 62  # of all groups of the broker: memory.py
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    consumer: ConsumerSettings = ConsumerSettings()

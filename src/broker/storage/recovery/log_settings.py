"""Translates a topic's configuration to the settings of the native log."""

from typing import TypedDict

from broker.model.topic_config import TopicConfig

_PRODUCERS_OWN = "producer"  # compression.type: batches are stored as they were sent


class LogSettings(TypedDict):
    """The keywords of `PartitionLog.configure`."""

    is_group_commit: bool
    is_plain: bool
    needs_keys: bool
    protocol_flags: int
    segment_bytes_max: int
    segment_ms: int
    segment_jitter_ms: int
    index_bytes_max: int
    index_interval_bytes: int
    is_preallocated: bool
    batch_bytes_max: int
    before_ms_max: int
    after_ms_max: int
    flush_messages: int
    flush_ms: int
    min_isr: int


def log_settings(topic: str, config: TopicConfig, protocol_flags: int = 0) -> LogSettings:
    """Return the settings of every partition of a topic."""
    return {
        "is_group_commit": config.is_group_commit,
        "is_plain": is_plain(topic, config),
        "needs_keys": "compact" in config.words("cleanup.policy"),
        "protocol_flags": protocol_flags,
        "segment_bytes_max": config.integer("segment.bytes"),
        "segment_ms": config.integer("segment.ms"),
        "segment_jitter_ms": config.integer("segment.jitter.ms"),
        "index_bytes_max": config.integer("segment.index.bytes"),
        "index_interval_bytes": config.integer("index.interval.bytes"),
        "is_preallocated": config.flag("preallocate"),
        "batch_bytes_max": config.integer("max.message.bytes"),
        "before_ms_max": config.integer("message.timestamp.before.max.ms"),
        "after_ms_max": config.integer("message.timestamp.after.max.ms"),
        "flush_messages": config.integer("flush.messages"),
        "flush_ms": config.integer("flush.ms"),
        "min_isr": config.integer("min.insync.replicas"),
    }


class Throttled(TypedDict):
    """The keywords of `PartitionLog.throttle`."""

    as_leader: bool
    as_follower: bool


def throttled(partition: int, config: TopicConfig) -> Throttled:
    """Return in which roles this broker's replica of a partition is throttled."""
    names = {"*", f"{partition}:{config.broker_id}"}
    return {
        "as_leader": not names.isdisjoint(config.words("leader.replication.throttled.replicas")),
        "as_follower": not names.isdisjoint(
            config.words("follower.replication.throttled.replicas")
        ),
    }


def is_plain(topic: str, config: TopicConfig) -> bool:
    """Return whether batches are stored as they were sent, so that the native path may append them.

    Where records need keys, the native path checks them, too. Where they are events of streams, it
    has no part: their protocol's own path appends them.
    """
    return (
        config.text("message.timestamp.type") == "CreateTime"
        and config.text("compression.type") == _PRODUCERS_OWN
        and not topic.startswith("__")
        and not config.has_streams
    )

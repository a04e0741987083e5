"""What elections and replication need of a topic's configuration, from the image."""

import json
from collections.abc import Callable
from typing import NamedTuple

from broker.core.cluster.image import ClusterImage
from broker.storage import metadata

_TRUE = "true"


class ReplicaSettings(NamedTuple):
    """The settings of a topic's partitions."""

    min_isr: int = 1  # min.insync.replicas
    is_unclean_allowed: bool = False  # unclean.leader.election.enable


class TopicSettings:
    """Computed when they are asked for; kept until the topic's configuration changes."""

    __slots__ = ("_defaults", "_image", "_kept")

    def __init__(self, image: ClusterImage, defaults: Callable[[], ReplicaSettings]) -> None:
        """Keep the image, and the function that returns what topics without own values have."""
        self._image = image
        self._defaults = defaults
        self._kept: dict[bytes, tuple[int, ReplicaSettings, ReplicaSettings]] = {}

    def topic(self, topic_id: bytes) -> ReplicaSettings:
        """Return the settings of a topic; those of an unknown one are the defaults."""
        topic, defaults = self._image.topics.get(topic_id), self._defaults()
        entry = topic and self._image.configs.get(metadata.topic_config_key(topic.name))
        if entry is None:
            self._kept.pop(topic_id, None)
            return defaults
        kept = self._kept.get(topic_id)
        if kept is not None and kept[:2] == (entry.mod_revision, defaults):
            return kept[2]
        settings = _parse(entry.value, defaults)
        self._kept[topic_id] = entry.mod_revision, defaults, settings
        return settings


def _parse(value: bytes, defaults: ReplicaSettings) -> ReplicaSettings:
    """Return what a configuration sets; a damaged one nothing: its topic says so when it opens."""
    try:
        own = json.loads(value)["config"]
        min_isr = int(own.get("min.insync.replicas", defaults.min_isr))
        is_unclean = own.get("unclean.leader.election.enable")
    except (ValueError, KeyError, TypeError, AttributeError):
        return defaults
    is_allowed = defaults.is_unclean_allowed if is_unclean is None else is_unclean == _TRUE
    return ReplicaSettings(max(min_isr, 1), is_allowed)

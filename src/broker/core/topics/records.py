"""Operations on the metadata store that create and delete topics.

topic/<name>       its id and its number of partitions
topicid/<id>       its name
conf/topic/<name>  its own configuration, if it has any (core/configs/records.py)
deleted/<id>       name and number of partitions of a deleted topic whose folders may remain
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage
from broker.core.configs import records as config_records
from broker.storage import metadata


def creations(
    name: str, topic: records.TopicRecord, own_config: Mapping[str, str]
) -> list[metadata.Operation]:
    """Return the operations that create a topic."""
    operations: list[metadata.Operation] = [
        metadata.Put(metadata.topic_key(name), records.topic_value(topic)),
        metadata.Put(metadata.topic_id_key(topic.topic_id), records.topic_name_value(name)),
    ]
    if own_config:
        operations.append(config_records.operation(metadata.topic_config_key(name), own_config))
    return operations


def deletions(name: str, topic_id: bytes) -> list[metadata.Operation]:
    """Return the operations that delete a topic."""
    return [
        metadata.Delete(metadata.topic_key(name)),
        metadata.Delete(metadata.topic_id_key(topic_id)),
        metadata.Delete(metadata.topic_config_key(name)),
    ]


class DeletedTopic(NamedTuple):
    """A topic that was deleted; its folders may remain."""

    name: str
    topic_id: bytes
    partitions: int


def remembered(name: str, topic_id: bytes, partitions: int) -> metadata.Operation:
    """Return the operation that records remaining folders, so that a start removes them."""
    value = records.deleted_value(records.DeletedTopic(name, partitions))
    return metadata.Put(metadata.deleted_topic_key(topic_id), value)


def forgotten(topic_id: bytes) -> metadata.Operation:
    """Return the operation for when the folders have been removed."""
    return metadata.Delete(metadata.deleted_topic_key(topic_id))


def read_deleted(image: ClusterImage) -> list[DeletedTopic]:
    """Return the deleted topics whose folders may remain."""
    return [
        DeletedTopic(stored.topic.name, topic_id, stored.topic.partitions)
        for topic_id, stored in image.deleted.items()
    ]

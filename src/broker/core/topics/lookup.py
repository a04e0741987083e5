"""Looks up the topic and partition of a request, or raises the error that clients get."""

from broker.core.logs.log import Log
from broker.core.topics.rules import check_name
from broker.core.topics.topic import Topic
from broker.core.topics.topics import Topics
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID


def topic_by_name(topics: Topics, name: str) -> Topic:
    """Return the topic of that name; an invalid name and an unknown one have different errors."""
    topic = topics.get(name)
    if topic is None:
        check_name(name)
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def topic_by_id(topics: Topics, topic_id: bytes) -> Topic:
    """Return the topic with that id; an id belongs to one creation of a name."""
    topic = None if topic_id == NO_ID else topics.by_id(topic_id)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def check_exists(topic: Topic, partition: int) -> None:
    """Raise RequestError unless the topic has a partition of that number, whoever leads it."""
    if not topic.has_partition(partition):
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def check_partition(topic: Topic, partition: int) -> Log:
    """Return the log of one partition, in any state."""
    log = topic.log(partition)
    if log is not None:
        return log
    check_exists(topic, partition)
    raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def replica_of(topic: Topic, partition: int) -> Log:
    """Return the log of one partition, led or followed, if it is in service."""
    followed = topic.followed.get(partition)
    if followed is None:
        return log_of(topic, partition)
    _check_state(followed)
    return followed


def led_log(topic: Topic, partition: int) -> Log:
    """Return the log of one partition, for a request that changes it."""
    log = log_of(topic, partition)
    if not log.is_led:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return log


def log_of(topic: Topic, partition: int) -> Log:
    """Return the log of one partition, if it is in service."""
    log = check_partition(topic, partition)
    _check_state(log)
    return log


def _check_state(log: Log) -> None:
    if log.is_loading:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if log.is_offline:
        raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR)

"""From a request's topic and partition to the broker's, or the error that clients understand."""

from broker.core.log import Log
from broker.core.topic import Topic
from broker.core.topic_rules import check_name
from broker.core.topics import Topics
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID


def topic_by_name(topics: Topics, name: str) -> Topic:
    """The topic of that name; an impossible name is told apart from an unknown one."""
    topic = topics.get(name)
    if topic is None:
        check_name(name)
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def topic_by_id(topics: Topics, topic_id: bytes) -> Topic:
    """The topic with that id; an id is one incarnation of a name."""
    topic = None if topic_id == NO_ID else topics.by_id(topic_id)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def check_partition(topic: Topic, partition: int) -> Log:
    """The log of one partition, whatever can be done with it now."""
    log = topic.log(partition)
    if log is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return log


def log_of(topic: Topic, partition: int) -> Log:
    """The log of one partition, in service."""
    log = check_partition(topic, partition)
    if log.is_loading:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if log.is_offline:
        raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR)
    return log

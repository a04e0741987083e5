"""Lookup of a request's topic and partition."""

from broker.core.forwarding import check_led
from broker.core.logs.log import Log
from broker.core.topics.lookup import log_of
from broker.core.topics.topic import Topic
from broker.model.errors import RequestError
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import Failure, RefusalError, refusal


def topic_of(call: Call, name: str, partition: int) -> Topic:
    """Return the topic, which has that partition; raise RefusalError if it does not exist."""
    topic = call.broker.topics.get(name)
    if topic is None or not topic.has_partition(partition):
        raise RefusalError(Failure.NO_PARTITION, topic=name, partition=partition)
    return topic


def log_in_service(call: Call, topic: Topic, partition: int, failure: Failure) -> Log:
    """Return the log of a partition.

    Raises:
        ElsewhereError: another broker leads it.
        RefusalError: it is loading or offline, or nobody leads it.
    """
    try:
        check_led(call.session, topic, partition)
        return log_of(topic, partition)
    except RequestError as error:
        raise refusal(failure, error) from None

"""CREATE, DELETE, LIST, DESCRIBE, METADATA, LIST_OFFSETS."""

import json
from textwrap import indent
from typing import TYPE_CHECKING, Final

from broker.core import access
from broker.core.forwarding import answered_here, check_led
from broker.core.logs.log import Log
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import log_of
from broker.core.topics.rules import DEFAULT, NewPartitions, NewTopic, check_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import (
    CURSUS_MESSAGE_BYTES_MAX,
    NAMES_READ_PER_STEP,
    PARTITIONS_ANSWERED_PER_STEP,
)
from broker.model.own_config import Alteration, AlterOp
from broker.protocols.cursus import permissions, topic_access
from broker.protocols.cursus.connections import address_of, leader_address
from broker.protocols.cursus.errors import RefusedError, quoted
from broker.protocols.cursus.forwarding import offsets_elsewhere
from broker.protocols.cursus.grammar import integer, partition_of
from broker.protocols.cursus.policies import alterations, policy_of, policy_text, replication_factor
from broker.protocols.cursus.requests import Request, check_partition

if TYPE_CHECKING:
    from collections.abc import Iterable

_DESCRIBED_PER_STEP: Final = 40  # 1 to 2 ms
PARTITIONS: Final = 4  # the default of CREATE
_USAGE: Final = quoted("CREATE topic=<name> [partitions=<N>]")


async def create(request: Request) -> str:
    """Create a topic, or change the settings of one that exists and add partitions to it."""
    command = request.command
    name = command.get("topic")
    if not name:
        raise RefusedError("missing_topic", expected=_USAGE)
    _check_name(name)
    count = _partitions(command.get("partitions"))
    wanted_access = topic_access.asked(command, name)
    topic_access.check(request.session, command, wanted_access)
    topic = request.broker.topics.get(name)
    changes, factor = alterations(command, topic), replication_factor(command)
    if topic is None:
        permissions.check_creation(request.session, command.keyword, name)
    else:
        _check_change(request, topic, count, changes)
    try:
        await topic_access.apply(request.session, name, wanted_access)  # before anyone may use it
        if topic is None:
            new = NewTopic(name, count or PARTITIONS, factor, allows_equals=True)
            topic = await _create(request, new, changes)
        else:
            topic = await _change(request, topic, count, changes)
            _check_factor(request, topic, factor)
    except RequestError as error:
        if error.code is ErrorCode.INVALID_REPLICATION_FACTOR:
            raise RefusedError("invalid_replication_factor", detail=str(error)) from None
        raise RefusedError("create_topic_failed", topic=name, detail=str(error)) from None
    return (
        f"OK topic={name} partitions={topic.partition_count} {policy_text(request.session, topic)}"
    )


def _check_name(name: str) -> None:
    try:
        check_name(name, allows_equals=True)
    except RequestError as error:
        raise RefusedError("invalid_topic_name", topic=quoted(name), detail=str(error)) from None


def _partitions(text: str) -> int | None:
    """Parse the number of partitions; return None if it was not given."""
    if not text:
        return None
    number = integer(text)
    if number is None or number < 1:
        raise RefusedError("invalid_partitions", detail="must be a positive integer")
    return number


def _check_factor(request: Request, topic: Topic, factor: int) -> None:
    """Refuse another number of replicas than a topic has: CREATE does not change that."""
    present = len(request.broker.cluster.leadership(topic, 0).replicas)
    if factor not in (DEFAULT, present):
        text = f"topic '{topic.name}' has {present}"
        raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, text)


async def _create(request: Request, new: NewTopic, changes: list[Alteration]) -> Topic:
    topics = request.broker.topics
    own = {each.name: each.text for each in changes if each.op is AlterOp.SET}
    if request.broker.config.integer("message.max.bytes") < CURSUS_MESSAGE_BYTES_MAX:
        own["max.message.bytes"] = str(CURSUS_MESSAGE_BYTES_MAX)
    try:
        return await topics.create(new._replace(config=own))
    except RequestError as error:
        topic = topics.get(new.name)  # another client may have created it meanwhile
        if topic is None or error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        changes = alterations(request.command, topic)
        _check_change(request, topic, new.partitions, changes)
        return await _change(request, topic, new.partitions, changes)


def _check_change(
    request: Request, topic: Topic, count: int | None, changes: list[Alteration]
) -> None:
    """Raise RefusedError unless the client may make these changes, and know of the topic.

    Who may neither describe nor create it is refused as if it did not exist.
    """
    if not access.may_describe(request.session, topic):
        permissions.check_creation(request.session, request.command.keyword, topic.name)
    needed = {Operation.DESCRIBE}
    if changes:
        needed.add(Operation.ALTER_CONFIGS)
    if count is not None and count > topic.partition_count:
        needed.add(Operation.ALTER)
    keyword = request.command.keyword
    for operation in sorted(needed):
        permissions.check(request.session, keyword, operation, ResourceType.TOPIC, topic.name)


async def _change(
    request: Request, topic: Topic, count: int | None, changes: list[Alteration]
) -> Topic:
    topics = request.broker.topics
    has = topic.partition_count
    if count is not None and count < has:
        text = f"cannot decrease partition count for topic '{topic.name}': {has} -> {count}"
        raise RequestError(ErrorCode.INVALID_PARTITIONS, text)
    if topic.is_internal:
        return topic
    if changes and topic.config.altered(changes) != topic.config.overrides:
        await topics.alter_config(topic, lambda config: config.altered(changes))
    if count is not None and count > has:
        await topics.add_partitions(topic, NewPartitions(count, None))
    return topic


async def delete(request: Request) -> str:
    """Delete a topic and its records."""
    topic = request.topic()
    if topic.is_internal:
        text = f"'{topic.name}' belongs to the broker"
        raise RefusedError("delete_topic_failed", topic=topic.name, detail=text)
    try:
        await request.broker.topics.delete(topic)
    except RequestError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise RefusedError("topic_not_found", topic=topic.name) from None
        raise RefusedError("delete_topic_failed", topic=topic.name, detail=str(error)) from None
    return f"OK topic={topic.name} deleted=true"


async def list_topics(request: Request) -> str:
    """Return all topics, internal ones too; with a topic, its number of partitions.

    The list is made in steps: a topic that is deleted between two steps is left out.
    """
    if request.command.get("topic"):
        topic = request.topic()
        return f"OK topic={topic.name} partitions={topic.partition_count}"
    names: list[str] = []
    per_step = access.per_step(request.session, NAMES_READ_PER_STEP)
    async for part in in_parts(request.broker.topics, per_step):
        names += [topic.name for topic in part if access.may_describe(request.session, topic)]
    return f"OK count={len(names)} topics={','.join(names)}"


async def describe(request: Request) -> str:
    """Return a topic as JSON."""
    topic, session = request.topic(), request.session
    elsewhere = await offsets_elsewhere(session, topic)
    partitions = []
    async for number in in_steps(range(topic.partition_count), _DESCRIBED_PER_STEP):
        log = topic.log(number)
        ends = (0, 0) if log is None or log.is_loading else (log.log_end_offset, log.high_watermark)
        if number in elsewhere:
            ends = _ends_of(elsewhere[number])
        shown = json.dumps(_described(session, topic, number, *ends), indent=2)
        partitions.append(indent(shown, "    "))
    policy = json.dumps(policy_of(session, topic), indent=2)
    shown = ",\n".join(partitions)
    return (
        f'{{\n  "status": "OK",\n  "topic": "{topic.name}",\n  "partitions": [\n{shown}\n  ],\n'
        f'  "policy": {indent(policy, "  ").lstrip()}\n}}'
    )


def _described(
    session: Session, topic: Topic, number: int, end: int, high_watermark: int
) -> dict[str, object]:
    leader = address_of(session)
    replicas, in_sync = [leader], [leader]
    if session.broker.links is not None:
        state = session.broker.cluster.leadership(topic, number)
        leader = leader_address(session, state.leader)
        replicas = [leader_address(session, each) for each in state.replicas]
        in_sync = [leader_address(session, each) for each in state.isr]
    return {
        "id": number,
        "leader": leader,
        "replicas": replicas,
        "isr": in_sync,
        "leo": end,
        "hwm": high_watermark,
    }


def _ends_of(entry: str) -> tuple[int, int]:
    """Return the log end offset and the high watermark of an entry of LIST_OFFSETS."""
    *_, end, high_watermark = entry.split(":")
    return int(end.removeprefix("leo=")), int(high_watermark.removeprefix("hwm="))


async def metadata(request: Request) -> str:
    """Return the leader of each partition, by the address that clients use.

    Of a partition without a leader that is this broker, which refuses requests until there is one.
    """
    topic, session = request.topic(), request.session
    count = topic.partition_count
    leaders = ",".join([address_of(session)] * count)
    epochs = ",".join(["0"] * count)
    if session.broker.links is not None:
        of = session.broker.cluster.leadership
        states = [
            of(topic, number)
            async for number in in_steps(range(count), PARTITIONS_ANSWERED_PER_STEP)
        ]
        leaders = ",".join([leader_address(session, each.leader) for each in states])
        epochs = ",".join([str(max(each.leader_epoch, 0)) for each in states])
    return (
        f"OK topic={topic.name} partitions={count} leaders={leaders} epochs={epochs}"
        f" {policy_text(session, topic)}"
    )


async def list_offsets(request: Request) -> str:
    """Return the start and end offsets of each partition, or of one."""
    topic, session = request.topic(), request.session
    entries: dict[int, str] = {}
    if request.command.get("partition"):
        number = partition_of(request.command)
        check_partition(topic, number)
        check_led(session, topic, number)
        numbers: Iterable[int] = range(number, number + 1)
    else:
        entries = await offsets_elsewhere(session, topic)
        numbers = answered_here(session, topic)
    async for number in in_steps(numbers, PARTITIONS_ANSWERED_PER_STEP):
        entries[number] = _offsets(number, log_of(topic, number))
    shown = ",".join([entries[number] for number in sorted(entries)])
    return f"OK topic={topic.name} partitions={topic.partition_count} offsets={shown}"


def _offsets(partition: int, log: Log) -> str:
    high_watermark = log.high_watermark
    return (
        f"P{partition}:earliest={log.log_start_offset}:latest={high_watermark}"
        f":leo={log.log_end_offset}:hwm={high_watermark}"
    )

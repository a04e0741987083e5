"""DescribeLogDirs, v0-5. v2 flexible; v3 error; v4 total and usable bytes (KIP-827); v5 cordoned.

A partition that moves to another directory (KIP-113) is in both: in the other one as future key,
with the bytes that are copied, and with the offsets that it lacks as its lag. The lag of a replica
is what its log lacks to its own high watermark, as in Kafka: nothing. A partition's size is that of
its log, without preallocated space of files. A directory that is missing or has failed has an error
and no partitions, as in Kafka. The response is built in steps: a topic that is deleted between two
of them may be missing, and each size is that of its step.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.core.topics.topics import Topics
from broker.model.errors import ErrorCode, StorageError
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_cluster
from broker.protocols.kafka.partitions import unique_partitions

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.core.maintenance.moves import Moves

_Named: TypeAlias = Iterator[tuple[Topic, Iterable[int]]]


async def handle(
    request: "Request[bodies.DescribeLogDirsRequest]", session: Session
) -> "bodies.DescribeLogDirsResponse":
    """Describe the requested partitions, or all; those that are not on this broker are left out."""
    broker = session.broker
    directories = broker.directories
    results: dict[str, bodies.DescribeLogDirsResponseResult] = {}
    for path in directories:
        results[str(path)] = row = _row(path)
        try:
            space = await broker.disk_space(path) if directories.takes(path) else None
        except StorageError:
            space = None
        if space is not None:
            row |= {"total_bytes": space.total_bytes, "usable_bytes": space.usable_bytes}
        else:
            row["error_code"] = errors.number(ErrorCode.KAFKA_STORAGE_ERROR)
    for path in directories.missing:
        results[str(path)] = row = _row(path)
        row["error_code"] = errors.number(ErrorCode.KAFKA_STORAGE_ERROR)
    wanted = request.body["topics"]
    named: _Named
    if wanted is None:
        named = ((topic, range(topic.partition_count)) for topic in broker.topics)
    else:
        named = await _named(broker.topics, wanted)
    found: dict[tuple[str, str], bodies.DescribeLogDirsResponseTopic] = {}
    async for part in in_parts(_rows(named, broker.moves), PARTITIONS_ANSWERED_PER_STEP):
        for topic, its_directory, partition in part:
            directory = str(directories.home) if len(results) == 1 else its_directory
            described = found.get((directory, topic.name))
            if described is None:
                described = {"name": topic.name, "partitions": []}
                result = results.get(directory)
                if result is None or result["error_code"]:
                    continue
                result["topics"].append(described)
                found[directory, topic.name] = described
            described["partitions"].append(partition)
    return {"error_code": 0, "results": list(results.values())}


def _row(path: Path) -> "bodies.DescribeLogDirsResponseResult":
    return {"error_code": 0, "log_dir": str(path), "topics": []}


async def _named(topics: Topics, wanted: "list[bodies.DescribeLogDirsRequestTopic]") -> _Named:
    """Return the existing topics, each with its existing partitions of those requested."""
    places = await unique_partitions((each["topic"], each["partitions"]) for each in wanted)
    found: dict[Topic, list[int]] = {}
    async for name, partition in in_steps(places, PARTITIONS_ANSWERED_PER_STEP):
        topic = topics.get(name)
        if topic is not None and topic.held_log(partition) is not None:
            found.setdefault(topic, []).append(partition)
    return ((topic, sorted(partitions)) for topic, partitions in found.items())


def _rows(
    named: _Named, moves: "Moves | None"
) -> "Iterator[tuple[Topic, str, bodies.DescribeLogDirsResponsePartition]]":
    """Yield each partition that this broker leads or follows with its topic and its directory."""
    for topic, partitions in named:
        for partition in partitions:
            log = topic.held_log(partition)
            if log is not None:
                row: bodies.DescribeLogDirsResponsePartition = {
                    "partition_index": partition,
                    "partition_size": log.size,
                    "offset_lag": max(0, log.high_watermark - log.log_end_offset),
                    "is_future_key": False,
                }
                yield topic, log.folder.rpartition("/")[0], row
                move = None if moves is None else moves.of(log)
                if move is not None and not move.log.is_loading:
                    copied: bodies.DescribeLogDirsResponsePartition = {
                        "partition_index": partition,
                        "partition_size": move.copy.size,
                        "offset_lag": move.lag,
                        "is_future_key": True,
                    }
                    yield topic, str(move.directory), copied


API = Api(35, "DescribeLogDirs", range(6), handle, (on_cluster(Operation.DESCRIBE),))

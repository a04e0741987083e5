"""A broker made of fakes with many of everything, and the requests that take it long.

The cost of one turn of the loop is measured over it: in executed lines of Python, which do not
depend on the machine (tests), or in milliseconds of CPU time (benchmarks/turns).
"""

import asyncio
import sys
import time
from asyncio import ensure_future
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import broker
from broker._native.log.topic_table import TopicTable
from broker.codec import schema
from broker.codec.coordinator_records import encode_subscription
from broker.core.coordination import partitions as coordinator_partitions
from broker.core.groups.commands.classic import GroupProtocol as Protocol
from broker.core.groups.commands.classic import JoinRequest
from broker.core.groups.commands.consumer import ConsumerHeartbeat
from broker.core.groups.commands.offsets import CommitRequest, OffsetToCommit
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.settings import GroupSettings
from broker.core.security import acl_changes
from broker.core.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from broker.core.security.authorizer import Authorizer
from broker.core.session import Session
from broker.core.topics.rules import NewTopic
from broker.model.errors import ErrorCode
from broker.model.protocol_names import PROTOCOL_NAMES
from broker.protocols.base import Answer, Deferred
from broker.protocols.registry import PROTOCOLS
from tests.support.fakes import FakeBroker, batch
from tests.support.memory_log import MemoryLog

_ResultT = TypeVar("_ResultT")

# Of a turn: 1 to 2 ms. How many lines of Python something executes does not depend on the machine;
# native work has its own limits (tests/native/messages/test_schema_steps.py).
LINES_PER_TURN_MAX = 20_000
_PACKAGE = str(Path(broker.__file__).parent)
_SUBSCRIPTION = encode_subscription(
    1, {"topics": ["topic-00000"], "user_data": None, "owned_partitions": []}
)


class Size(NamedTuple):
    """The size of everything, and how many a request names."""

    topics: int
    partitions_per_topic: int
    groups: int
    members: int
    offsets: int  # of one group
    producers: int  # of one partition
    transactional_ids: int
    named: int


class LargeBroker(FakeBroker):
    """A broker with many topics, groups, offsets, producers and transactional ids."""

    def __init__(self, size: Size) -> None:
        """Create all of it, in the running loop."""
        super().__init__({"auto.create.topics.enable": "false", "log.dirs": "/"})
        self.size = size
        self.protocols = {each.name: each() for each in PROTOCOLS}
        self.offset_logs = [MemoryLog() for _ in range(50)]
        ids = count()
        self.coordinator = GroupCoordinator(
            coordinator_partitions.Environment(
                lambda number: self.offset_logs[number],
                lambda: asyncio.get_running_loop().create_future(),
                self.transactions_clock,
                self.tick_groups_soon,
            ),
            settings=GroupSettings(initial_rebalance_delay_ms=0),
            topics=self.topics,
            fresh_id=lambda: f"{next(ids):036}",
        )
        self.broker = self.broker._replace(groups=self.coordinator)

    def log_changes(self) -> int:
        """Do nothing: the logs of this broker do not change."""
        return 0

    def tick_groups_soon(self, monotonic_ms: int) -> None:
        """Run the due work of groups in the next turn of the loop."""
        if monotonic_ms <= self.transactions_clock.monotonic_ms():
            asyncio.get_running_loop().call_soon(self._tick_groups)

    def _tick_groups(self) -> None:
        self.tick_groups_soon(self.coordinator.tick())

    async def authorize(self) -> None:
        """Decide by access control entries from now on; they allow everything to everyone."""
        acls = [_permission(resource) for resource in ResourceType]
        await acl_changes.create(self.metadata, acls)
        authorizer = Authorizer(
            self.metadata.image.security, TopicTable(), super_users=(), allows_unlisted=False
        )
        security = self.broker.security._replace(authorizer=authorizer)
        self.broker = self.broker._replace(security=security)

    async def forget_decisions(self) -> None:
        """Change an entry: no decision that was made before it is known then."""
        acl = _permission(ResourceType.TOPIC)._replace(principal="User:nobody")
        await acl_changes.create(self.metadata, [acl])
        await acl_changes.delete(self.metadata, [acl])

    async def fill(self) -> None:
        """Create everything."""
        size = self.size
        for name in topic_names(size):
            await self.topics.create(NewTopic(name, size.partitions_per_topic))
        await self.topics.create(NewTopic("wide", size.named))
        await self.topics.offsets_topic()
        await self.topics.transactions_topic()
        self.log("topic-00000").producers = [
            (number, 0, 5, 1_700_000_000_000, 0, -1) for number in range(size.producers)
        ]
        for number in range(size.groups):
            await self._commit(f"group-{number:05}", "topic-00000", range(1))
        for first in range(0, size.offsets, 1_000):
            partitions = range(first, min(first + 1_000, size.offsets))
            await self._commit("reader", "wide", partitions)
        self.joining = [self._join("members") for _ in range(size.members)]  # the first one waits
        for number in range(min(size.members, 100)):
            await self._join_consumers(number)
        for number in range(size.transactional_ids):
            await self.ask_soon(
                22, 4, transactional_id=f"id-{number}", transaction_timeout_ms=1_000
            )

    async def _commit(self, group: str, topic: str, partitions: Iterable[int]) -> None:
        offsets = tuple(OffsetToCommit(topic, each, 1) for each in partitions)
        answer = await self.coordinator.commit_offsets(CommitRequest(group, "", None, -1, offsets))
        assert set(answer.errors) == {ErrorCode.NONE}

    def _join(self, group: str) -> Awaitable[Any]:
        protocols = (Protocol("range", _SUBSCRIPTION),)
        request = JoinRequest(
            group, "", None, "client", "/127.0.0.1", 45_000, 300_000, "consumer", protocols
        )
        return self.coordinator.join_group(request)

    async def _join_consumers(self, number: int) -> None:
        names = tuple(topic_names(self.size))
        joined = await self.coordinator.consumer_group_heartbeat(
            ConsumerHeartbeat(
                "consumers",
                f"member-{number}",
                0,
                rebalance_timeout_ms=300_000,
                topic_names=names,
                owned={},
                client_id="client",
                client_host="/127.0.0.1",
            )
        )
        assert joined.error is ErrorCode.NONE

    async def serve(self, request: "LongRequest") -> bytes:
        """Send a request on its own connection and return its response."""
        protocol = self.protocols[request.protocol]
        session = Session(self.broker, "127.0.0.1", "broker.example", 9092)
        answer: Any = protocol.handle(
            request.operation, request.version, "tester", request.body, session
        )
        if isinstance(answer, Deferred):
            await asyncio.wait([answer.future])
            answer = answer.answer()
        elif isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, Answer):
            answer = answer.body
        assert isinstance(answer, bytes)
        return answer


class LongRequest(NamedTuple):
    """A request whose work grows with the broker, or with what it names."""

    protocol: str
    name: str
    operation: int
    version: int
    body: bytes
    answer_bytes_min: int  # a shorter one is an error


def _permission(resource: ResourceType) -> Acl:
    name = CLUSTER_NAME if resource is ResourceType.CLUSTER else "*"
    pattern = Pattern(resource, name, PatternType.LITERAL)
    return Acl(pattern, "User:*", "*", Operation.ALL, Permission.ALLOW)


def topic_names(size: Size) -> list[str]:
    """Return the topics of a broker, in addition to `wide`."""
    return [f"topic-{number:05}" for number in range(size.topics)]


def _kafka(name: str, key: int, version: int, answer_bytes_min: int, **fields: Any) -> LongRequest:
    body = schema.request(key).encode(version, fields)
    return LongRequest("kafka", name, key, version, body, answer_bytes_min)


def requests(size: Size) -> list[LongRequest]:
    """Return every long request of the protocols that are served, each in its worst case."""
    names = topic_names(size)
    named = size.named
    wide = range(named)
    partitions = size.topics * size.partitions_per_topic
    unknown = [f"unknown-{number:06}" for number in range(named)]
    log_dirs = [{"topic": "wide", "partitions": list(wide)}]
    offsets = [{"partition_index": each, "timestamp": -1} for each in wide]
    commits = [{"partition_index": each, "committed_offset": 1} for each in wide]
    produced = [{"index": each, "records": batch()} for each in wide]
    new_topics = [
        {"name": each, "num_partitions": 1, "replication_factor": 1}
        for each in unknown[: named // 10]
    ]
    topic_resources = [
        {"resource_type": 2, "resource_name": each, "configs": _RETENTION}
        for each in names[: named // 10]
    ]
    entries = [{**_ENTRY_OF_ALICE, "resource_name": each} for each in unknown[: named // 5]]
    described = [
        {"resource_type": 2, "resource_name": each, "configuration_keys": None}
        for each in names[: named // 10]
    ]
    everything = [
        _kafka("Metadata of all topics", 3, 12, 10 * partitions, topics=None),
        _kafka(
            "Metadata of topics by name",
            3,
            12,
            10 * named,
            topics=[{"name": each} for each in unknown],
        ),
        _kafka("DescribeTopicPartitions of all", 75, 0, 10_000, topics=[]),
        _kafka(
            "DescribeTopicPartitions of many",
            75,
            0,
            10 * named,
            topics=[{"name": each} for each in reversed(unknown)],
        ),
        _kafka("ListGroups", 16, 5, 10 * size.groups),
        _kafka("DescribeGroups, members", 15, 5, 10 * size.members, groups=["members"]),
        _kafka(
            "DescribeGroups of many",
            15,
            5,
            10 * min(named, size.groups),
            groups=[f"group-{number:05}" for number in range(min(named, size.groups))],
        ),
        _kafka("ConsumerGroupDescribe", 69, 1, 10 * size.topics, group_ids=["consumers"]),
        _kafka("DescribeLogDirs of all", 35, 4, 10 * partitions, topics=None),
        _kafka("DescribeLogDirs of many", 35, 4, 10 * named, topics=log_dirs),
        _kafka("ListOffsets", 2, 7, 10 * named, topics=[{"name": "wide", "partitions": offsets}]),
        _kafka("DescribeConfigs", 32, 4, 100 * len(described), resources=described),
        _kafka("ListConfigResources", 74, 1, 10 * size.topics, resource_types=[]),
        _kafka(
            "DescribeProducers",
            61,
            0,
            10 * size.producers,
            topics=[{"name": "topic-00000", "partition_indexes": [0]}],
        ),
        _kafka("ListTransactions", 66, 1, 10 * size.transactional_ids),
        _kafka(
            "DescribeTransactions",
            65,
            0,
            10 * min(named, size.transactional_ids),
            transactional_ids=[f"id-{each}" for each in range(min(named, size.transactional_ids))],
        ),
        _kafka(
            "OffsetFetch of all",
            9,
            8,
            10 * size.offsets,
            groups=[{"group_id": "reader", "topics": None}],
        ),
        _kafka(
            "OffsetFetch of many",
            9,
            7,
            10 * named,
            group_id="reader",
            topics=[{"name": "wide", "partition_indexes": list(wide)}],
        ),
        _kafka(
            "OffsetCommit to unknown topics",
            8,
            8,
            10 * named,
            group_id="other",
            generation_id_or_member_epoch=-1,
            topics=[{"name": each, "partitions": commits[:1]} for each in unknown],
        ),
        _kafka(
            "OffsetCommit",
            8,
            8,
            6 * named,
            group_id="writer",
            generation_id_or_member_epoch=-1,
            topics=[{"name": "wide", "partitions": commits}],
        ),
        _kafka(
            "OffsetDelete",
            47,
            0,
            6 * named,
            group_id="reader",
            topics=[{"name": each, "partitions": [{"partition_index": 0}]} for each in unknown],
        ),
        _kafka(
            "CreateTopics, only validated",
            19,
            7,
            10 * len(new_topics),
            topics=new_topics,
            validate_only=True,
        ),
        _kafka("CreateTopics", 19, 7, 10 * len(new_topics), topics=new_topics),
        _kafka(
            "CreatePartitions, only validated",
            37,
            3,
            10 * named,
            topics=[{"name": each, "count": 5, "assignments": None} for each in unknown],
            validate_only=True,
        ),
        _kafka(
            "IncrementalAlterConfigs, only validated",
            44,
            1,
            10 * len(topic_resources),
            resources=topic_resources,
            validate_only=True,
        ),
        _kafka("DeleteTopics, unknown", 20, 5, 10 * named, topic_names=unknown),
        _kafka(
            "DeleteRecords",
            21,
            2,
            10 * named,
            topics=[
                {
                    "name": "wide",
                    "partitions": [{"partition_index": each, "offset": 0} for each in wide],
                }
            ],
        ),
        _kafka(
            "OffsetForLeaderEpoch",
            23,
            4,
            10 * named,
            topics=[
                {
                    "topic": "wide",
                    "partitions": [
                        {"partition": each, "current_leader_epoch": -1, "leader_epoch": 0}
                        for each in wide
                    ],
                }
            ],
        ),
        _kafka(
            "ElectLeaders",
            43,
            2,
            8 * named,
            topic_partitions=[{"topic": "wide", "partitions": list(wide)}],
        ),
        _kafka(
            "ListOffsets of many topics",
            2,
            7,
            10 * named,
            topics=[{"name": each, "partitions": offsets[:1]} for each in unknown],
        ),
        _kafka(
            "OffsetFetch of many topics",
            9,
            7,
            10 * named,
            group_id="reader",
            topics=[{"name": each, "partition_indexes": [0]} for each in unknown],
        ),
        _kafka(
            "AddPartitionsToTxn, not one known",
            24,
            3,
            10 * named,
            v3_and_below_transactional_id="id-0",
            v3_and_below_topics=[{"name": each, "partitions": [0]} for each in unknown],
        ),
        _kafka("FindCoordinator", 10, 5, 10 * named, coordinator_keys=unknown),
        _kafka(
            "AlterReplicaLogDirs",
            34,
            2,
            6 * named,
            dirs=[{"path": "/", "topics": [{"name": "wide", "partitions": list(wide)}]}],
        ),
        _kafka(
            "DescribeUserScramCredentials",
            50,
            0,
            10 * named,
            users=[{"name": each} for each in unknown],
        ),
        _kafka(
            "Produce",
            0,
            9,
            10 * named,
            acks=1,
            timeout_ms=30_000,
            topic_data=[{"name": "wide", "partition_data": produced}],
        ),
        _kafka(
            "Produce, not one known",
            0,
            9,
            10 * named,
            acks=1,
            timeout_ms=30_000,
            topic_data=[{"name": each, "partition_data": produced[:1]} for each in unknown],
        ),
        _kafka(
            "ConsumerGroupHeartbeat",
            68,
            1,
            20,
            group_id="new",
            member_id="member",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=unknown[: named // 8],
            topic_partitions=[],
        ),
        _kafka("CreateAcls", 30, 3, 4 * len(entries), creations=entries),
        _kafka(
            "DescribeAcls",
            29,
            3,
            20,
            **_ACLS_OF_ALICE,
            resource_name_filter=None,
        ),
        _kafka(
            "DeleteAcls",
            31,
            3,
            5 * len(entries),
            filters=[
                {**_ACLS_OF_ALICE, "resource_name_filter": f"{name}-{each}"}
                for name in unknown[:80]
                for each in range(10)
            ],
        ),
        _kafka(
            "AlterUserScramCredentials",
            51,
            0,
            10 * named,
            deletions=[{"name": each, "mechanism": 1} for each in unknown],
            upsertions=[],
        ),
        LongRequest(
            "v1", "V1 ADMIN_GET_METADATA", 0, 0, b"V1|1|ADMIN_GET_METADATA|", 10 * size.topics
        ),
        LongRequest("cursus", "Cursus LIST", 0, 0, b"LIST", 10 * size.topics),
        LongRequest("cursus", "Cursus DESCRIBE", 0, 0, b"DESCRIBE topic=wide", 10 * named),
        LongRequest("cursus", "Cursus LIST_OFFSETS", 0, 0, b"LIST_OFFSETS topic=wide", 10 * named),
        LongRequest("rustlog", "RustLog ListTopics", 0, 0, b"\x06", 10 * size.topics),
        LongRequest("rustlog", "RustLog DescribeTopic", 0, 0, b"\x07\x00\x04wide", 10 * named),
    ]
    return [each for each in everything if each.protocol in PROTOCOL_NAMES]


_ENTRY_OF_ALICE = {
    "resource_type": 2,
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_ACLS_OF_ALICE: dict[str, Any] = {
    "resource_type_filter": 2,
    "pattern_type_filter": 3,
    "principal_filter": "User:alice",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_RETENTION = [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]


# ---- what a turn costs ---------------------------------------------------------------------------


class TurnLoop(asyncio.SelectorEventLoop):
    """A loop that records the cost of each of its turns."""

    def __init__(self, cost: Callable[[], int]) -> None:
        """Store the function that returns the cost so far, which only grows."""
        super().__init__()
        self._cost = cost
        self.turns: list[int] = []

    def _run_once(self) -> None:
        before = self._cost()
        super()._run_once()  # type: ignore[misc] # what asyncio runs a turn with
        self.turns.append(self._cost() - before)


class Lines:
    """The number of executed lines of the broker's Python."""

    def __init__(self) -> None:
        """Begin with none."""
        self.count = 0

    def begin(self) -> None:
        """Begin to count in this thread."""
        sys.settrace(self._enter)

    def end(self) -> None:
        """Stop counting."""
        sys.settrace(None)

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        is_ours = frame.f_code.co_filename.startswith(_PACKAGE)
        return self._line if is_ours else None

    def _line(self, _frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            self.count += 1
        return self._line


class LineLoop(TurnLoop):
    """A loop whose turns cost what they execute of the broker's Python, in lines."""

    def __init__(self) -> None:
        """Begin with none."""
        self.lines = Lines()
        super().__init__(lambda: self.lines.count)

    def measure(self, work: Awaitable[_ResultT]) -> _ResultT:
        """Return the result of some work; `turns` has what it cost."""
        self.turns.clear()
        self.lines.begin()
        try:
            return self.run_until_complete(work)
        finally:
            self.lines.end()

    def end(self) -> None:
        """End the broker's background work, and the loop."""
        self.run_until_complete(_end_of_tasks())
        self.close()


async def _end_of_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def processor_ns() -> int:
    """Return the CPU time of this process."""
    return time.process_time_ns()


async def serve_beside(broker: LargeBroker, request: LongRequest) -> bytes:
    """Serve a request in its own task, as a connection would."""
    return await ensure_future(broker.serve(request))

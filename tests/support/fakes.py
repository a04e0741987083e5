"""Fakes of what is native or durable: a log in memory, a store in memory, canned groups."""

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from broker._native.kernel.checksum import crc32c
from broker.codec import schema
from broker.codec.control_records import Marker
from broker.core.broker import Broker
from broker.core.cluster.slices import complete
from broker.core.cluster_view import Alone, ClusterView
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.configs.group_configs import GroupConfigs
from broker.core.coordination import partitions as coordinator_partitions
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommits,
    AssignedError,
    AssignedResponse,
)
from broker.core.groups.commands.classic import (
    GroupDescription,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.commands.consumer import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.core.groups.commands.listing import ListGroupsRequest, ListGroupsResponse
from broker.core.groups.commands.offsets import (
    CommitRequest,
    CommitResponse,
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
)
from broker.core.health import Health, Stage
from broker.core.logs.partition import LogWaiters
from broker.core.logs.recompression import Recompression
from broker.core.metadata import Metadata, OwnMetadata
from broker.core.metrics.measured import Measured
from broker.core.scheduling.admission import Admission
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.response_cache import ResponseCache
from broker.core.scheduling.tasks import Tasks
from broker.core.security import Security
from broker.core.security.users import Users
from broker.core.session import Session
from broker.core.topics.deletion import Deletions
from broker.core.topics.interfaces import Leadership, LeadsAll
from broker.core.topics.local_topics import LocalTopics
from broker.core.topics.placing import Placing, Standalone
from broker.core.topics.roles import Role
from broker.core.topics.rules import NewTopic
from broker.core.topics.topics import Topics
from broker.core.transactions.coordinator import TransactionCoordinator
from broker.core.transactions.other_brokers import OtherBrokers
from broker.core.transactions.records import TopicPartition
from broker.model.config import Config, load
from broker.model.errors import ErrorCode, StorageError
from broker.model.identifiers import ID_BYTES
from broker.model.log_results import AppendResult, AppendStatus
from broker.model.topic_config import TopicConfig
from broker.protocols.base import (
    Answer,
    Deferred,
)
from broker.protocols.kafka.dispatch import PROTOCOL
from broker.server.limiting import make_quotas
from broker.storage import metadata
from broker.storage.files.deletion import DeletedFolders
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog

NOW_MS = 1_700_000_000_000
_HEADER = struct.Struct(">qiibIhiqqqhii")  # record batch v2 up to the record count


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    attributes: int = 0,
    magic: int = 2,
    body: bytes = b"records",
) -> bytes:
    """Return a record batch v2; its records are bytes that these tests do not parse."""
    header = _HEADER.pack(
        0, 49 + len(body), -1, magic, 0, attributes, count - 1, timestamp, timestamp, -1, -1, -1,
        count,
    )  # fmt: skip
    data = bytearray(header + body)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


class FakeLog:
    """A partition's log in memory; `is_held` keeps appended batches from becoming durable."""

    def __init__(self, topic: str, topic_id: bytes, partition: int, config: TopicConfig) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.config = config
        self.batches: list[tuple[int, int, bytes]] = []  # base offset, last offset, bytes
        self.log_start_offset = 0
        self.high_watermark = 0
        self.leader_epoch = 0
        self.epochs: list[tuple[int, int]] = []  # older epochs and their ends
        self.is_offline = False
        self.is_led = True
        self.is_follower = False
        self.is_replicated = False
        self.known_epoch = 0
        self.isr: list[int] = []
        self.committed = 0
        self.is_full = False
        self.is_deleted = False
        self.is_loading = False
        self.is_held = False
        self.is_replicated = False
        self.lacks_replicas = False
        self.is_caught_up_leader = True
        self.deletes_everywhere = True
        self.timestamps: list[int] = []  # of every offset
        self.aborted: list[tuple[int, int, int]] = []
        self.producers: list[tuple[int, int, int, int, int, int]] = []
        self.admitted: dict[int, int] = {}
        self.folder = ""
        self.segment_entries = [(0, 0, -1)]
        self.segment_count = 1
        self.records_in = self.bytes_in = self.bytes_out = self.bytes_copied = 0
        self.failed_writes = self.rejected_bytes = self.failed_reads = 0
        self.times: dict[int, int] = {}  # by offset
        self.unsynced_bytes = 0
        self._waiting: list[tuple[int, Callable[[bool], None]]] = []

    def start_epoch(self, epoch: int) -> None:
        self.leader_epoch = epoch

    def elected(self) -> None:
        self.is_led = True

    def lead(
        self, epoch: int, _self_id: int, replicas: list[int], isr: list[int], committed: int
    ) -> None:
        self.is_follower = False
        self.known_epoch = self.leader_epoch = epoch
        self.is_replicated = len(replicas) > 1
        self.isr, self.committed = isr, committed

    def set_isr(self, isr: list[int], committed: int) -> None:
        self.isr, self.committed = isr, committed

    def follow(self, epoch: int) -> None:
        self.is_follower = True
        self.is_led = False
        self.known_epoch = epoch

    def take_offline(self, _reason: str) -> None:
        self.is_offline = True

    def time_at(self, offset: int) -> int:
        return self.times.get(offset, -1)

    def move_log_start(self, offset: int) -> None:
        assert offset <= self.high_watermark
        self.log_start_offset = max(self.log_start_offset, offset)

    def configure(self, config: TopicConfig) -> None:
        self.config = config

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else self.log_start_offset

    @property
    def size(self) -> int:
        return sum(len(data) for _, _, data in self.batches)

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def append(self, records: bytes, *, needs_replicas: bool = True) -> AppendResult:
        if not records:
            return AppendResult(AppendStatus.BATCH_EMPTY)
        if self.lacks_replicas and needs_replicas:
            return AppendResult(AppendStatus.LOG_TOO_FEW_REPLICAS)
        length, _, magic, crc = struct.unpack_from(">iibI", records, 8)
        if length + 12 != len(records):
            is_followed = length + 12 < len(records)
            return AppendResult(
                AppendStatus.BATCH_NOT_ALONE if is_followed else AppendStatus.BATCH_TRUNCATED
            )
        if magic != 2:
            return AppendResult(AppendStatus.BATCH_MAGIC)
        if crc32c(records[21:]) != crc:
            return AppendResult(AppendStatus.BATCH_CRC)
        if len(records) > self.config.integer("max.message.bytes"):
            return AppendResult(AppendStatus.BATCH_TOO_LARGE)
        attributes, producer_id, epoch = struct.unpack_from(">h20xqh", records, 21)
        if attributes & 0x10 and not self.admits_transaction(producer_id, epoch):
            return AppendResult(AppendStatus.TRANSACTION_NOT_ADMITTED)
        base_offset = self.log_end_offset
        last_delta, _, latest = struct.unpack_from(">iqq", records, 23)
        stored = struct.pack(">q", base_offset) + records[8:]
        self.batches.append((base_offset, base_offset + last_delta, stored))
        self.timestamps += [latest] * (last_delta + 1)
        if not self.is_held:
            self.sync()
        return AppendResult(AppendStatus.APPENDED, base_offset, self.log_end_offset)

    def sync(self) -> None:
        """Make everything appended durable."""
        self.high_watermark = self.log_end_offset
        self._call_back(is_durable=True)

    def fail(self) -> None:
        """Let the disk fail."""
        self.is_offline = True
        self._call_back(is_durable=False)

    def lose_replicas(self) -> None:
        """Let too few replicas be in sync."""
        self.lacks_replicas = True
        self._call_back(is_durable=False)

    def _call_back(self, *, is_durable: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for offset, callback in waiting:
            if is_durable and offset > self.high_watermark:
                self._waiting.append((offset, callback))
            else:
                callback(is_durable)

    def read(
        self, offset: int, size_max: int, at_least_one: bool = True, end_offset: int = 1 << 62
    ) -> bytes:
        found = b""
        for _, last, data in self.batches:
            if last < offset or last >= min(self.high_watermark, end_offset):
                continue
            if len(found) + len(data) > size_max and (found or not at_least_one):
                break
            found += data
        return found

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None:
        self.when_durable(offset, callback)

    def nearest_replica(self, rack: bytes, racks: dict[int, bytes], offset: int) -> int:
        found = [each for each in racks if racks[each] == rack]
        return found[0] if found and self.is_replicated and offset <= self.high_watermark else -1

    def when_kept(self, offset: int, callback: Callable[[bool], None]) -> None:
        self.when_durable(offset, callback)

    def when_durable(self, offset: int, callback: Callable[[bool], None]) -> None:
        if self.is_offline:
            callback(False)
        elif offset <= self.high_watermark:
            callback(True)
        else:
            self._waiting.append((offset, callback))

    def when_start_copied(self, _offset: int, callback: Callable[[bool], None]) -> None:
        """Let the other replicas delete, too, if there are any that do so."""
        if self.deletes_everywhere:
            callback(True)

    @property
    def callback_count(self) -> int:
        return len(self._waiting)

    @property
    def active_producers(self) -> list[tuple[int, int, int, int, int, int]]:
        return self.producers

    def active_producer(self, producer_id: int) -> tuple[int, int, int, int, int, int] | None:
        return next((each for each in self.producers if each[0] == producer_id), None)

    @property
    def open_transactions(self) -> dict[int, int]:
        return {}

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int, int]]:
        return [each for each in self.aborted if each[2] >= start and each[1] < end]

    def admit_transaction(self, producer_id: int, epoch: int) -> None:
        self.admitted[producer_id] = epoch

    def dismiss_transaction(self, producer_id: int) -> None:
        self.admitted.pop(producer_id, None)

    def admits_transaction(self, producer_id: int, epoch: int) -> bool:
        return self.admitted.get(producer_id) == epoch

    def has_batch(self, _records: bytes) -> bool:
        """Return False: it remembers no sequences."""
        return False

    def append_internal(self, batch: bytes) -> int:
        return self.append(batch).base_offset

    def find_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        found = [each for each in enumerate(self.timestamps) if each[1] >= timestamp]
        return found[0] if found else None

    def find_max_timestamp(self) -> tuple[int, int] | None:
        return self.find_timestamp(max(self.timestamps)) if self.timestamps else None

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        return max((each for each in self.epochs if each[0] <= epoch), default=(-1, -1))


class FakeTopic(NamedTuple):
    """A topic; its id is its name and the number of its creation."""

    name: str
    topic_id: bytes
    partition_count: int

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("__")


class FakeTopics:
    """Topics that a test creates, changes and deletes."""

    def __init__(self) -> None:
        self.version = 0
        self._incarnations = 0
        self._by_name: dict[str, FakeTopic] = {}

    def get(self, name: str, /) -> FakeTopic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes, /) -> FakeTopic | None:
        return next((each for each in self._by_name.values() if each.topic_id == topic_id), None)

    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def put(self, name: str, partitions: int) -> None:
        """Create a topic or add partitions; with 0 partitions it is deleted."""
        self.version += 1
        known = self._by_name.pop(name, None)
        if partitions:
            self._incarnations += known is None
            new_id = f"{name}/{self._incarnations}".encode().ljust(ID_BYTES, b".")
            topic_id = known.topic_id if known else new_id
            self._by_name[name] = FakeTopic(name, topic_id, partitions)


class FakeTable:
    """The native topic table, as a dictionary."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[bytes, list[Any]]] = {}

    def add(
        self, name: str, topic_id: bytes, logs: list[Any], followed: dict[int, Any] | None = None
    ) -> None:
        assert type(logs) is list
        assert followed is None or type(followed) is dict
        self.topics[name] = (topic_id, logs)

    def remove(self, name: str) -> None:
        del self.topics[name]


class FakeStore:
    """A metadata store in memory."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.mod_revisions: dict[bytes, int] = {}  # 0 for what a test has put into `values`
        self.revision = 0
        self.is_broken = False

    def get(self, key: bytes) -> metadata.KeyValue | None:
        value = self.values.get(key)
        if value is None:
            return None
        revision = self.mod_revisions.get(key, 0)
        return metadata.KeyValue(key, value, revision, revision)

    def scan(self, prefix: bytes) -> tuple[list[metadata.KeyValue], int]:
        found = (self.get(key) for key in sorted(self.values) if key.startswith(prefix))
        return [entry for entry in found if entry is not None], self.revision

    def transact(
        self, guards: Sequence[metadata.Guard], operations: Sequence[metadata.Operation]
    ) -> int | None:
        if self.is_broken:
            raise StorageError("no space left on device")
        if not all(map(self._holds, guards)):
            return None
        self.revision += 1
        for operation in operations:
            if isinstance(operation, metadata.Put):
                self.values[operation.key] = operation.value
                self.mod_revisions[operation.key] = self.revision
            else:
                self.values.pop(operation.key, None)
        return self.revision

    def _holds(self, guard: metadata.Guard) -> bool:
        entry = self.get(guard.key)
        if entry is None or isinstance(guard, metadata.Absent):
            return entry is None and isinstance(guard, metadata.Absent)
        assert isinstance(guard, metadata.Unchanged)
        return entry.mod_revision == guard.mod_revision

    def close(self) -> None:
        pass


class FakeGroups:
    """Records the commands and returns the answers set by the test."""

    def __init__(self) -> None:
        self.commands: list[Any] = []
        self.answers: list[Any] = []
        self.deleted_topics: list[str] = []
        self.is_coordinator = True

    def coordinates(self, _key: str) -> bool:
        return self.is_coordinator

    def _serve(self, command: Any, default: Any) -> asyncio.Future[Any]:
        self.commands.append(command)
        future = asyncio.get_running_loop().create_future()
        future.set_result(self.answers.pop(0) if self.answers else default)
        return future

    def join_group(self, request: JoinRequest) -> asyncio.Future[JoinResponse]:
        return self._serve(request, JoinResponse(ErrorCode.NONE))

    def sync_group(self, request: SyncRequest) -> asyncio.Future[SyncResponse]:
        return self._serve(request, SyncResponse(ErrorCode.NONE))

    def heartbeat(self, request: HeartbeatRequest) -> asyncio.Future[ErrorCode]:
        return self._serve(request, ErrorCode.NONE)

    def consumer_group_heartbeat(
        self, request: ConsumerHeartbeat
    ) -> asyncio.Future[ConsumerHeartbeatResponse]:
        return self._serve(request, ConsumerHeartbeatResponse(ErrorCode.NONE))

    def consumer_group_describe(self, group_id: str) -> asyncio.Future[ConsumerGroupDescription]:
        return self._serve(group_id, ConsumerGroupDescription(ErrorCode.NONE, group_id))

    def leave_group(self, request: LeaveRequest) -> asyncio.Future[LeaveResponse]:
        members = (ErrorCode.NONE,) * len(request.members)
        return self._serve(request, LeaveResponse(ErrorCode.NONE, members))

    def commit_offsets(self, request: CommitRequest) -> asyncio.Future[CommitResponse]:
        errors = (ErrorCode.NONE,) * len(request.offsets)
        return self._serve(request, CommitResponse(errors))

    def assigned_check(self, call: AssignedCall) -> asyncio.Future[AssignedResponse]:
        return self._serve(call, AssignedResponse(AssignedError.NONE))

    def assigned_commit_all(self, request: AssignedCommits) -> asyncio.Future[AssignedResponse]:
        return self._serve(request, AssignedResponse(AssignedError.GROUP_NOT_FOUND))

    def fetch_offsets(self, request: FetchOffsetsRequest) -> asyncio.Future[FetchOffsetsResponse]:
        return self._serve(request, FetchOffsetsResponse(ErrorCode.NONE))

    def describe_group(self, group_id: str) -> asyncio.Future[GroupDescription]:
        return self._serve(group_id, GroupDescription(ErrorCode.NONE, group_id))

    def within_reach(self) -> list[int]:
        return list(range(max(len(self.answers), 1)))

    def list_groups(
        self, number: int, request: ListGroupsRequest
    ) -> asyncio.Future[ListGroupsResponse]:
        return self._serve((number, request), ListGroupsResponse(ErrorCode.NONE))

    def delete_group(self, group_id: str) -> asyncio.Future[ErrorCode]:
        return self._serve(group_id, ErrorCode.NONE)

    def delete_offsets(
        self, request: DeleteOffsetsRequest
    ) -> asyncio.Future[DeleteOffsetsResponse]:
        errors = dict.fromkeys(request.topics, ErrorCode.NONE)
        return self._serve(request, DeleteOffsetsResponse(ErrorCode.NONE, errors))

    def topic_deleted(self, topic: str) -> None:
        self.deleted_topics.append(topic)

    def partition_for(self, group_id: str) -> int:
        return len(group_id)

    def end_transaction(
        self, number: int, marker: Marker, answer: Callable[[ErrorCode], None]
    ) -> None:
        self.commands.append((number, marker))
        answer(ErrorCode.NONE)


class FakeProducerIds:
    """Counts from 1000."""

    def __init__(self) -> None:
        self.last = 999
        self.is_broken = False

    async def next_id(self) -> int:
        if self.is_broken:
            raise StorageError("no block of ids")
        self.last += 1
        return self.last


class FakeFolders(DeletedFolders):
    """Deleted topic folders that do not exist."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.put_aside: list[tuple[str, list[int]]] = []  # topic, partitions

    def put_away(
        self,
        topic: str,
        topic_id: bytes,
        partitions: Iterable[int],
        *,
        is_name_taken: bool,
    ) -> None:
        assert topic_id
        assert not is_name_taken
        self.put_aside.append((topic, list(partitions)))

    def sync(self) -> None:
        pass

    def waiting(self, topic: str, topic_id: bytes, partitions: Iterable[int]) -> list[Path]:
        return [Path(f"{topic}-{partition}.{topic_id.hex()}") for partition in partitions]

    def remove_some(self, folders: deque[Path]) -> None:
        folders.popleft()


class FakePartitionLogs:
    """Logs as topics use them; subclasses of FakeBroker decide what they are."""

    is_read_only = False

    def __init__(self, broker: "FakeBroker") -> None:
        self._broker = broker

    def claim(self, topic: str, _topic_id: bytes, numbers: Iterable[int]) -> list[int]:
        return [each for each in numbers if (topic, each) not in self._broker.busy_folders]

    async def free_deleted(self, topic: str, numbers: Iterable[int]) -> None:
        self._broker.freed_folders += [(topic, each) for each in numbers]

    async def open_topic(self, *args: Any) -> list[Any]:
        return await self._broker.io_thread.run(lambda: self._broker.open_logs(*args))

    def load(self, logs: Iterable[Any]) -> None:
        for log in logs:
            self._broker.topics.prepare(log)
            self._broker.end_loading(log)

    async def release(self, log: Any) -> None:
        self._broker.released_logs.append(log)

    async def stop_accepting(self, log: Any) -> None:
        self._broker.stopped_logs.append(log)

    async def leave(self, log: Any) -> None:
        self._broker.left_logs.append(log)

    async def remove_moved(self, topic: str, _topic_id: bytes, number: int) -> None:
        self._broker.removed_folders.append((topic, number))

    def announce_topic(self, *args: Any) -> list[Any]:
        return self._broker.announce_logs(*args)

    async def until_loaded(self, logs: Sequence[Any]) -> None:
        await self._broker.until_loaded(logs)

    def configure(self, log: Any, config: TopicConfig) -> None:
        self._broker.configure_log(log, config)

    def delete(self, log: Any) -> None:
        self._broker.delete_log(log)

    def forget(self, topic: str, numbers: Iterable[int]) -> None:
        self._broker.forgotten_logs += [(topic, number) for number in numbers]

    @property
    def change_count(self) -> int:
        return self._broker.log_changes()


class LeadsNothing:
    """The leadership of a broker of a cluster whose partitions all have other leaders."""

    def role(self, _topic_id: bytes, _partition: int, /) -> Role | None:
        return None

    def keeps(self, _topic_id: bytes, _partition: int, /) -> bool:
        return True


class FakeBroker:
    """A broker made of fakes, and a connection to it; every call is one whole event loop."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        store: Any = None,
        leadership: Leadership | None = None,
        known: Metadata | None = None,
        placing: Placing | None = None,
        cluster: ClusterView | None = None,
        others: OtherBrokers | None = None,
    ) -> None:
        self.store = store or FakeStore()
        self.coordinates = True  # transactional ids
        self.table = FakeTable()
        self.groups = FakeGroups()
        self.state_log = MemoryLog()
        self.transactions_clock = ManualClock(NOW_MS)
        self.transactions = TransactionCoordinator(
            coordinator_partitions.Environment(
                lambda _: self.state_log,
                lambda: asyncio.get_running_loop().create_future(),
                self.transactions_clock,
                self.tick_soon,
                is_led=lambda _: self.coordinates,
            ),
            self.log_of,
            self.groups,  # type: ignore[arg-type]
            partition_count=1,
            others=others,
        )
        self.producer_ids = FakeProducerIds()
        self.io_thread = IoThread()
        self.metadata: Metadata = known or OwnMetadata(self.store, self.io_thread)
        self.configs = BrokerConfigs(
            load([f"{name}={text}" for name, text in (settings or {}).items()]), self.metadata
        )
        self.group_configs = GroupConfigs(lambda: self.configs.current, self.metadata)
        self.deleted_logs: list[FakeLog] = []
        self.released_logs: list[FakeLog] = []
        self.stopped_logs: list[FakeLog] = []
        self.left_logs: list[FakeLog] = []
        self.removed_folders: list[tuple[str, int]] = []
        self.forgotten_logs: list[tuple[str, int]] = []
        self.busy_folders: set[tuple[str, int]] = set()  # another process has them
        self.freed_folders: list[tuple[str, int]] = []
        self.broken_partition: int | None = None
        self.folders = FakeFolders()
        node_id = self.config.integer("node.id")
        placing = placing or Standalone(node_id)
        self.deletions = Deletions(self.metadata, self.io_thread, self.folders, placing)
        self.durable_starts: dict[tuple[str, int], int] = {}
        self.leadership = leadership or LeadsAll()
        self.logs = FakePartitionLogs(self)
        local = LocalTopics(
            self.config, self.metadata, self.table, self.logs, self.deletions, self.leadership
        )
        self.topics = Topics(self.metadata, local, self.logs, placing)
        self.configs.inherited_by(self.topics.alter_defaults)
        self.broker = Broker(
            configs=self.configs,
            clock=ManualClock(NOW_MS),
            cluster_id="cluster-id-of-22-chars",
            io_thread=self.io_thread,
            topics=self.topics,
            log_waiters=LogWaiters(),
            groups=self.groups,  # type: ignore[arg-type]
            transactions=self.transactions,
            producer_ids=self.producer_ids,  # type: ignore[arg-type]
            recompression=Recompression(),
            persist_log_starts=self.persist_log_starts,
            group_configs=self.group_configs,
            metadata=self.metadata,
            cluster=cluster or Alone(node_id, self.config.text_or_none("broker.rack")),
            appends=Tasks(1 << 62),
            long_answers=Admission(1 << 62, 0),
            response_cache=ResponseCache(lambda: self.topics.revision, 1 << 20),
            security=Security(users=Users(self.metadata)),
            health=Health(),
            metrics=Measured(),
        )
        self.broker.health.stage = Stage.SERVING
        self.quotas = make_quotas(self.config, self.metadata, self.broker.clock)
        security = self.broker.security._replace(quotas=self.quotas)
        self.broker = self.broker._replace(security=security)
        self.throttle_ms = 0  # of the last answer
        self.topics.when_deleted(self.groups.topic_deleted)
        self.protocol = PROTOCOL()
        self.session = Session(self.broker, "127.0.0.1", "broker.example", 9092)

    def reload(self) -> None:
        """Learn of what others have changed in the store."""
        complete(self.metadata.image.load(*self.store.scan(b"")))

    def tick_soon(self, monotonic_ms: int) -> None:
        """Run the due work of transactions in the next turn of a running loop."""
        if monotonic_ms <= self.transactions_clock.monotonic_ms():
            with suppress(RuntimeError):
                asyncio.get_running_loop().call_soon(self.tick_transactions)

    def tick_transactions(self) -> None:
        self.tick_soon(self.transactions.tick())

    def log_of(self, place: TopicPartition) -> Any:
        topic = self.topics.get(place[0])
        return topic.log(place[1]) if topic else None

    def open_logs(
        self, name: str, topic_id: bytes, numbers: Sequence[int], config: TopicConfig
    ) -> list[FakeLog]:
        if self.broken_partition in numbers:
            raise StorageError("no space left on device")
        return [FakeLog(name, topic_id, partition, config) for partition in numbers]

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.configs.current

    def log_changes(self) -> int:
        """A different number for each state of the logs."""
        logs: list[Any] = [log for log, _ in self.topics.logs()]
        return hash(tuple((log.is_offline, log.is_loading, log.leader_epoch) for log in logs))

    def configure_log(self, log: FakeLog, config: TopicConfig) -> None:
        log.configure(config)

    async def persist_log_starts(self, planned: Sequence[tuple[Any, int]]) -> None:
        if self.store.is_broken:
            raise StorageError("no space left on device")
        for log, start in planned:
            assert log.log_start_offset <= start, "seen before it was durable"
            self.durable_starts[log.topic, log.partition] = start

    def announce_logs(
        self, name: str, topic_id: bytes, numbers: Sequence[int], config: TopicConfig
    ) -> list[FakeLog]:
        """Complete at once: what a start finds is ready."""
        return self.open_logs(name, topic_id, numbers, config)

    async def until_loaded(self, logs: Sequence[FakeLog]) -> None:
        assert not any(log.is_loading for log in logs)

    def end_loading(self, log: FakeLog) -> None:
        log.is_loading = False

    def delete_log(self, log: FakeLog) -> None:
        self.deleted_logs.append(log)

    def create(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> Any:
        """Create a topic and return it."""
        new = NewTopic(name, partitions, config=config or {})
        return asyncio.run(self.topics.create(new))

    def log(self, name: str, partition: int = 0) -> FakeLog:
        """Return the log of a partition."""
        topic = self.topics.get(name)
        assert topic is not None
        return topic.logs[partition]  # type: ignore[return-value]

    def ask(
        self, key: int, version: int, /, client_id: str | None = "tester", **fields: Any
    ) -> Any:
        """Send a request through the protocol and return the decoded response."""
        return asyncio.run(self.ask_soon(key, version, client_id, **fields))

    def turns(self, key: int, version: int, /, **fields: Any) -> int:
        """Return how many turns other tasks have before a request is answered."""

        async def count() -> int:
            turns = 0
            asked = asyncio.ensure_future(self.ask_soon(key, version, **fields))
            while not asked.done():
                await asyncio.sleep(0)
                turns += 1
            await asked
            return turns

        return asyncio.run(count())

    async def ask_soon(
        self, key: int, version: int, /, client_id: str | None = "tester", **fields: Any
    ) -> Any:
        """Send a request inside a running loop."""
        body = schema.request(key).encode(version, fields)
        answer = await self.answer(key, version, client_id, body)
        if answer is None:
            return None
        value, end = schema.response(key).decode(version, answer)
        assert end == len(answer)
        return value

    async def answer(
        self, key: int, version: int, client_id: str | None, body: bytes
    ) -> bytes | None:
        """Send a request's body and return the response's body, as the server would."""
        if self.quotas.is_limiting:
            self.quotas.find(self.session, None if client_id is None else client_id.encode())
        reply = self.protocol.handle(key, version, client_id, body, self.session)
        if isinstance(reply, Deferred):
            await asyncio.wait([reply.future])
            reply = reply.answer()
        elif isinstance(reply, Awaitable):
            reply = await reply
        self.throttle_ms = 0
        if isinstance(reply, Answer):
            self.throttle_ms = reply.throttle_ms
            assert reply._replace(body=None, throttle_ms=0) == Answer(None)
            return reply.body
        return reply


def only(values: Iterable[Any]) -> Any:
    """Return the single element of a list in a response."""
    (value,) = values
    return value

"""A replicated log in memory, with the interface of the native one."""

from collections.abc import Callable
from typing import Any

from broker.model.log_results import AppendResult, AppendStatus
from tests.simulation.replication.batches import Stored, split

UNKNOWN = -1


class ModelTurn:
    def __init__(self) -> None:
        self.isr_events: list[tuple[Any, int, int]] = []
        self.logs: list[ModelLog] = []
        self.now_ms = 0

    def end(self) -> None:
        pass

    def lag_scan(self, now_ms: int, lag_ms: int) -> list[tuple[Any, int]]:
        found = []
        for log in self.logs:
            if log.is_follower or not log.is_replicated:
                continue
            for each in log.isr:
                follower = log.followers.get(each)
                if follower and now_ms - follower[3] > lag_ms and follower[1] < log.log_end_offset:
                    found.append((log, each))
        return found


class ModelLog:
    """One replica."""

    def __init__(
        self, turn: ModelTurn, item: Any, batches: list[Stored], epochs: list[tuple[int, int]]
    ) -> None:
        self.turn, self.item = turn, item
        self.batches = batches
        self.epoch_entries = epochs
        self.durable_end = self.log_end_offset
        self.high_watermark = 0
        self.known_epoch = epochs[-1][0] if epochs else -1
        self.is_follower = True
        self.is_replicated = True
        self.is_loading = False
        self.epoch_start = 0
        self.isr: list[int] = []
        self.committed = 0
        self.min_isr = 1
        self.self_id = 0
        self.followers: dict[int, list[int]] = {}  # epoch, position, -, caught up ms
        self.producers: dict[int, tuple[int, int, int]] = {}
        self._callbacks: list[tuple[int, Callable[[bool], None]]] = []
        self._sync_callbacks: list[tuple[int, Callable[[bool], None]]] = []
        self.accepts = False
        self._learn_all()
        turn.logs.append(self)

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    local_end = log_end_offset

    log_start_offset = 0

    @property
    def leader_epoch(self) -> int:
        return self.epoch_entries[-1][0] if self.epoch_entries else -1

    @property
    def is_caught_up_leader(self) -> bool:
        return self.high_watermark >= self.epoch_start

    def _learn_all(self) -> None:
        self.producers = {}
        for each in self.batches:
            self._learn(each)

    def _learn(self, batch: Stored) -> None:
        sequence = batch.sequence
        if sequence is not None:
            self.producers[sequence[0]] = (sequence[2], batch.base_offset, batch.end_offset)

    # roles

    def lead(self, epoch: int, self_id: int, replicas: list[int], isr: list[int]) -> None:
        assert epoch >= self.leader_epoch
        if epoch > self.leader_epoch or self.is_follower:
            if epoch > self.leader_epoch:
                self.epoch_entries.append((epoch, self.log_end_offset))
            self.epoch_start = self.log_end_offset
            self.followers, self.committed = {}, 0
        now = self.turn.now_ms
        self.followers = {
            each: self.followers.get(each, [0, UNKNOWN, 0, now])
            for each in replicas
            if each != self_id
        }
        self.self_id, self.isr = self_id, isr
        self.known_epoch, self.is_follower, self.accepts = epoch, False, True

    def configure(self, *, min_isr: int) -> None:
        self.min_isr = min_isr

    def elected(self) -> None:
        pass

    def set_isr(self, isr: list[int], committed: int) -> None:
        self.isr, self.committed = isr, committed
        self._advance()

    def follow(self, epoch: int) -> None:
        self.known_epoch, self.is_follower, self.accepts = epoch, True, False
        self._fail()

    def stop_accepting(self) -> None:
        self.accepts = False

    def _fail(self) -> None:
        waiting, self._callbacks = self._callbacks, []
        for _, callback in waiting:
            callback(False)

    # appends

    def append(self, records: bytes) -> AppendResult:
        if self.is_follower or not self.accepts:
            return AppendResult(AppendStatus.LOG_NOT_LED)
        [sent] = split(records)
        base = self.log_end_offset
        end = base + sent.end_offset - sent.base_offset
        epoch = self.leader_epoch
        data = base.to_bytes(8, "big") + records[8:12] + epoch.to_bytes(4, "big") + records[16:]
        batch = Stored(base, end, epoch, data)
        sequence = batch.sequence
        if sequence is not None:
            known = self.producers.get(sequence[0])
            if known is not None and sequence[2] == known[0]:
                return AppendResult(AppendStatus.DUPLICATE, known[1], known[2])
            if sequence[2] != (0 if known is None else known[0] + known[2] - known[1]):
                return AppendResult(AppendStatus.SEQUENCE_OUT_OF_ORDER)
        self.batches.append(batch)
        self._learn(batch)
        return AppendResult(AppendStatus.APPENDED, base, end)

    def append_replicated(self, data: bytes, hw: int, log_start: int, epoch: int) -> str:
        if not self.is_follower or epoch != self.known_epoch:
            return "not led"
        for batch in split(data):
            if batch.base_offset != self.log_end_offset:
                return "gap"
            if batch.epoch > self.leader_epoch:
                self.epoch_entries.append((batch.epoch, batch.base_offset))
            self.batches.append(batch)
            self._learn(batch)
        self._reach(min(hw, self.durable_end))
        return "ok"

    def truncate_to(self, offset: int) -> None:
        while self.batches and self.batches[-1].end_offset > offset:
            self.batches.pop()
        while self.epoch_entries and self.epoch_entries[-1][1] >= offset:
            self.epoch_entries.pop()
        self.durable_end = min(self.durable_end, self.log_end_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self._learn_all()

    def begin_loading(self) -> None:
        self.is_loading = True

    def end_loading(self) -> None:
        self.is_loading = False

    # reads

    def read(self, offset: int, size_max: int) -> bytes:
        return self._read(offset, size_max, self.high_watermark)

    def read_for_replica(self, offset: int, size_max: int) -> bytes:
        return self._read(offset, size_max, self.log_end_offset)

    def _read(self, offset: int, size_max: int, end: int) -> bytes:
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].end_offset <= offset:
                low = middle + 1
            else:
                high = middle
        found: list[bytes] = []
        size = 0
        for batch in self.batches[low:]:
            size += len(batch.data)
            if batch.base_offset >= end or (found and size > size_max):
                break
            found.append(batch.data)
        return b"".join(found)

    # positions

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        found, end = -1, -1
        for at, (each, start) in enumerate(self.epoch_entries):
            if each <= epoch:
                found = each
                is_last = at + 1 == len(self.epoch_entries)
                end = self.log_end_offset if is_last else self.epoch_entries[at + 1][1]
            elif found < 0:
                return epoch, start
        return (found, end) if found >= 0 else (-1, 0)

    def diverges(self, epoch: int, offset: int) -> tuple[int, int] | None:
        if epoch < 0:
            return None
        found, end = self.end_of_epoch(epoch)
        return (found, end) if found < epoch or end < offset else None

    def note_position(self, replica: int, replica_epoch: int, offset: int) -> str:
        follower = self.followers.get(replica)
        if follower is None:
            return "not replica"
        if replica_epoch < follower[0]:
            return "stale"
        follower[0], follower[1] = replica_epoch, offset
        if offset >= self.log_end_offset:
            follower[3] = self.turn.now_ms
        if replica not in self.isr and offset >= max(self.high_watermark, self.epoch_start):
            self.turn.isr_events.append((self, replica, replica_epoch))
        self._advance()
        return "ok"

    def replica_states(self) -> list[tuple[int, int, int, int]]:
        return [(each, x[0], x[1], x[3]) for each, x in self.followers.items()]

    def _advance(self) -> None:
        if self.is_follower or self.committed < self.min_isr:
            return
        ends = [self.followers[each][1] for each in self.isr if each != self.self_id]
        self._reach(min([self.durable_end, *ends]))

    def _reach(self, watermark: int) -> None:
        if watermark <= self.high_watermark:
            return
        self.high_watermark = watermark
        due = [each for each in self._callbacks if each[0] <= watermark]
        self._callbacks = [each for each in self._callbacks if each[0] > watermark]
        for _, callback in due:
            callback(True)

    # waits

    def when_durable(self, offset: int, callback: Callable[[bool], None]) -> None:
        if offset <= self.high_watermark:
            callback(True)
        else:
            self._callbacks.append((offset, callback))

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None:
        if offset <= self.durable_end:
            callback(True)
        else:
            self._sync_callbacks.append((offset, callback))

    def synced(self, end: int) -> None:
        self.durable_end = max(self.durable_end, min(end, self.log_end_offset))
        self._advance()
        due = [each for each in self._sync_callbacks if each[0] <= self.durable_end]
        self._sync_callbacks = [x for x in self._sync_callbacks if x[0] > self.durable_end]
        for _, callback in due:
            callback(True)


class ModelStorage:
    """The disk of one broker, over all of its processes."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng
        self.kept: dict[Any, tuple[list[Stored], list[tuple[int, int]]]] = {}
        self.intact_since = 0
        self.logs: dict[Any, ModelLog] = {}
        self.turn = ModelTurn()
        self._ends: list[tuple[ModelLog, int]] = []

    def start(self) -> int:
        """Begin a process; return intact_since."""
        self.turn, self.logs = ModelTurn(), {}
        return self.intact_since

    def begin_turn(self, *, now_ms: int, broker_epoch: int, may_serve: bool) -> None:
        self.turn.now_ms = now_ms

    def append_replicated(self, log: ModelLog, data: bytes, hw: int, epoch: int) -> None:
        log.append_replicated(data, hw, 0, epoch)

    def truncate(self, log: ModelLog, end: int) -> None:
        log.truncate_to(end)

    def registered(self, epoch: int) -> None:
        if not self.intact_since:
            self.intact_since = epoch

    def open(self, item: Any) -> ModelLog:
        batches, epochs = self.kept.get(item, ([], []))
        log = ModelLog(self.turn, item, list(batches), list(epochs))
        self.logs[item] = log
        return log

    def needs_sync(self) -> bool:
        return any(log.durable_end < log.log_end_offset for log in self.logs.values())

    def begin_syncs(self) -> None:
        self._ends = [(log, log.log_end_offset) for log in self.logs.values()]

    def end_syncs(self) -> None:
        ends, self._ends = self._ends, []
        for log, end in ends:
            log.synced(end)

    def crash(self, *, is_power_cut: bool) -> None:
        for item, log in self.logs.items():
            batches = log.batches
            if is_power_cut:
                unsynced = [each for each in batches if each.end_offset > log.durable_end]
                lost = self.rng.randint(0, len(unsynced))
                batches = batches[: len(batches) - lost]
            end = batches[-1].end_offset if batches else 0
            self.kept[item] = batches, [each for each in log.epoch_entries if each[1] <= end]
        self.logs = {}

    def wipe(self) -> None:
        self.kept, self.intact_since, self.logs = {}, 0, {}

"""A stand-in for core/cluster/isr.py."""

from typing import Any

from broker.core.cluster import records
from broker.core.cluster.writes import GuardedWrites
from broker.storage.metadata import CreatedAt, Put


class IsrChanges:
    def __init__(self, image: Any, broker: tuple[int, int]) -> None:
        self.image = image
        self.broker_id, self.epoch = broker
        self.adding: dict[Any, dict[int, int]] = {}
        self.removing: dict[Any, set[int]] = {}
        self.in_flight: dict[Any, tuple[int, ...]] = {}
        self.changed: list[Any] = []
        fence = CreatedAt(records.broker_key(self.broker_id), self.epoch)
        self.writes = GuardedWrites(image, fence, self._decide)

    def _decide(self, item: Any) -> Any:
        state = self.image.state(*item)
        if state is None or (state.leader, state.broker_epoch) != (self.broker_id, self.epoch):
            return None
        adding = {
            each: epoch
            for each, epoch in self.adding.pop(item, {}).items()
            if self.image.is_registered(each, epoch) and each not in state.isr
        }
        removing = self.removing.pop(item, set()) - {self.broker_id}
        isr = tuple(
            each
            for each in state.replicas
            if (each in state.isr or each in adding) and each not in removing
        )
        if isr == state.isr:
            return None
        self.in_flight[item] = tuple(adding)
        self.changed.append(item)
        guard = self.image.guard(*item)
        changed = state._replace(isr=isr, partition_epoch=state.partition_epoch + 1)
        return guard, Put(guard.key, records.partition_value(changed))

    def caught_up(self, item: Any, replica: int, epoch: int) -> None:
        self.adding.setdefault(item, {})[replica] = epoch
        self.writes.mark(item)

    def lagging(self, item: Any, replica: int) -> None:
        self.removing.setdefault(item, set()).add(replica)
        self.writes.mark(item)

    def pending(self, item: Any) -> tuple[int, ...]:
        return self.in_flight.get(item, ())

    def take_changed(self) -> list[Any]:
        changed, self.changed = self.changed, []
        return changed

    @property
    def has_work(self) -> bool:
        return self.writes.has_marked

    def work(self) -> Any:
        return self.writes.take()

    def applied(self, write: Any, revision: int) -> None:
        self.writes.applied(write, revision)

    def refused(self, write: Any, now_ms: int) -> None:
        self.writes.refused(write, now_ms)

    def unknown(self, write: Any, now_ms: int) -> None:
        self.writes.unknown(write, now_ms)

    def image_changed(self, delta: Any) -> None:
        self.writes.image_changed()
        for item in delta.partitions:
            if self.in_flight.pop(item, None) is not None:
                self.changed.append(item)

    def tick(self, now_ms: int) -> None:
        self.writes.tick(now_ms)

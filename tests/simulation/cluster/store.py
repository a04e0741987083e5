"""The metadata store on a network: answers are late or lost, and leases end on the store's clock.

a request    arrives after some ms; while the store is unavailable it fails after a timeout
its outcome  is answered, or lost: then the change is applied at once, later, or never
a lease      ends when its time has passed since the last renewal's arrival; a store that was
unavailable may count anew, as etcd after an election
a watch      yields changes in order, some ms late or seconds late, several at once; when the
store has been compacted, it ends and the watcher scans
"""

from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import Any, TypeAlias

from broker.core.cluster import records
from broker.core.cluster.records import Transaction
from broker.storage.metadata import Changes, KeyValue, Put
from tests.simulation.cluster.audit import Audit
from tests.simulation.cluster.process import Process
from tests.simulation.virtual_time import VirtualTime
from tests.support.memory_store import MemoryStore

TIMEOUT_MS = 1_000
LEASE_MS = 3_000


class Failure(Enum):
    """What a store raises."""

    UNAVAILABLE = auto()  # nothing was changed
    UNKNOWN = auto()


Outcome: TypeAlias = int | Failure | None  # a revision; None: a guard did not hold


class SimulatedStore:
    """One store for all brokers."""

    def __init__(self, rng: Random, time: VirtualTime, audit: Audit) -> None:
        self.data = MemoryStore()
        self.is_available = True
        self.loss_rate = 0.0
        self.lag_rate = 0.0
        self.counts_anew = rng.random() < 0.5
        self.frees_at_death = rng.random() < 0.3  # as a lock that the kernel releases
        self.compacted = 0  # up to this revision
        self._rng = rng
        self._time = time
        self._audit = audit
        self._deadlines: dict[int, int] = {}
        self._watchers: list[Callable[[], None]] = []

    # ---- requests
    # ---------------------------------------------------------------------------------------------

    def transact(
        self,
        process: Process,
        transaction: Transaction,
        done: Callable[[Outcome], None],
        controller_epoch: int = 0,
    ) -> None:
        """Make a transaction; `controller_epoch`: of the controller that makes it."""

        def drop(_: Outcome) -> None:
            pass

        def arrive() -> None:
            if not self.is_available:
                failure = self._rng.choice(list(Failure))
                self._time.after(TIMEOUT_MS, lambda: process.run(lambda: done(failure)))
            elif self._rng.random() < self.loss_rate:
                when = self._rng.choice(("now", "later", "never"))
                if when == "now":
                    apply()
                elif when == "later":
                    self._time.after(self._rng.randrange(4_000), lambda: drop(apply()))
                self._time.after(TIMEOUT_MS, lambda: process.run(lambda: done(Failure.UNKNOWN)))
            else:
                outcome = apply()
                self._answer(process, lambda: done(outcome))

        def apply() -> Outcome:
            for each in transaction.operations:
                if isinstance(each, Put) and each.lease_id and self.data.is_ended(each.lease_id):
                    return Failure.UNAVAILABLE
            return self._change(lambda: self.data.transact(*transaction), controller_epoch)

        self._time.after(self._delay_ms(), arrive)

    def get(
        self, process: Process, key: bytes, done: Callable[[KeyValue | Failure | None], None]
    ) -> None:
        self._ask(process, lambda: self.data.get(key), done)

    def scan(
        self, process: Process, done: Callable[[tuple[list[KeyValue], int] | Failure], None]
    ) -> None:
        self._ask(process, self.data.scan, done)

    def _ask(
        self, process: Process, execute: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        def arrive() -> None:
            if self.is_available:
                result = execute()
                self._answer(process, lambda: done(result))
            else:
                self._time.after(TIMEOUT_MS, lambda: process.run(lambda: done(Failure.UNAVAILABLE)))

        self._time.after(self._delay_ms(), arrive)

    def _answer(self, process: Process, done: Callable[[], None]) -> None:
        self._time.after(self._delay_ms(), lambda: process.run(done))

    def _delay_ms(self) -> int:
        return self._rng.randrange(400) if self._rng.random() < 0.06 else self._rng.randrange(4)

    # ---- leases
    # ---------------------------------------------------------------------------------------------

    def grant(self, process: Process, done: Callable[[int | Failure], None]) -> None:
        def grant() -> int:
            lease_id = self.data.grant()
            self._extend(lease_id)
            if self.frees_at_death:
                process.at_death(lambda: self._end(lease_id))
            return lease_id

        self._ask(process, grant, done)

    def renew(self, process: Process, lease_id: int, done: Callable[[bool], None]) -> None:
        """Renew a lease; False when it has ended; no answer at all when that fails."""

        def renewed() -> bool:
            if self.data.is_ended(lease_id):
                return False
            self._extend(lease_id)
            return True

        def unless_failed(result: bool | Failure) -> None:
            if not isinstance(result, Failure):
                done(result)

        if self._rng.random() >= self.loss_rate:
            self._ask(process, renewed, unless_failed)

    def revoke(self, process: Process, lease_id: int, done: Callable[[object], None]) -> None:
        self._ask(process, lambda: self._end(lease_id), done)

    def end_lease_of(self, broker_id: int) -> None:
        """End the lease of a broker's registration, as if its time had passed."""
        key = records.broker_key(broker_id)
        for lease_id, keys in list(self.data.leases.items()):
            if key in keys:
                self._end(lease_id)

    def set_available(self, *, is_available: bool) -> None:
        self.is_available = is_available
        if is_available:
            for lease_id in list(self._deadlines):
                if self.counts_anew:
                    self._extend(lease_id)
                else:
                    self._check_lease(lease_id)
            self._wake()

    def _extend(self, lease_id: int) -> None:
        self._deadlines[lease_id] = self._time.now_ms + LEASE_MS
        self._time.after(LEASE_MS, lambda: self._check_lease(lease_id))

    def _check_lease(self, lease_id: int) -> None:
        deadline_ms = self._deadlines.get(lease_id)
        if deadline_ms is not None and deadline_ms <= self._time.now_ms and self.is_available:
            self._end(lease_id)

    def _end(self, lease_id: int) -> None:
        if not self.data.is_ended(lease_id):
            self._deadlines.pop(lease_id, None)
            self._change(lambda: self.data.expire(lease_id), 0)

    # ---- watches
    # ---------------------------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None]) -> None:
        """Call back after each change; the watcher fetches what it has not seen."""
        self._watchers.append(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.remove(wake)

    def watch_delay_ms(self) -> int:
        """Return how long the next changes take to a watcher."""
        rng = self._rng
        return rng.randrange(3_000) if rng.random() < self.lag_rate else rng.randrange(6)

    def changes(self, after: int) -> list[Changes] | None:
        """Return some of the changes after a revision; None when they are not known any more."""
        if after < self.compacted:
            return None
        changes = self.data.changes(after)
        if len(changes) > 1 and self._rng.random() < 0.3:
            del changes[self._rng.randrange(1, len(changes)) :]
        return changes

    def _change(self, change: Callable[[], int | None], controller_epoch: int) -> int | None:
        before = self.data.revision
        result = change()
        for changes in self.data.changes(before):
            self._audit.committed(changes, controller_epoch)
        if self.data.revision > before:
            self._wake()
        return result

    def _wake(self) -> None:
        for wake in list(self._watchers):
            wake()

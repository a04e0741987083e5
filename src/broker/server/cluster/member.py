"""The driver of this broker's membership: its lease, its registration, its departure."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.core.cluster import records
from broker.core.cluster.membership import (
    AcquireLease,
    Commit,
    LookUp,
    Membership,
    Phase,
    ReleaseLease,
)
from broker.core.cluster.records import NO_EPOCH
from broker.core.scheduling.events import is_set_within
from broker.core.service import Service
from broker.model.clock import monotonic
from broker.model.errors import ConfigError, StorageError
from broker.model.limits import REGISTRATION_RETRY_SECONDS
from broker.storage.metadata import KeyValue, Lease, MetaStore, OutcomeUnknown
from broker.storage.metadata.store_limits import ETCD_ELECTION_SECONDS

_log = logging.getLogger(__name__)
_TEXTS = {
    Phase.JOINING: "the registration has ended, this broker serves nothing until it has another",
    Phase.ACTIVE: "registered in the cluster",
    Phase.DRAINING: "leaderships move to other brokers",
    Phase.LEAVING: "leaving the cluster",
    Phase.LEFT: "left the cluster",
}


class Member(Service):
    """This broker as a member of its cluster."""

    name = "cluster membership"
    is_essential = True

    def __init__(self, store: MetaStore, membership: Membership, session_seconds: int) -> None:
        """Join with `run`; `membership` is of the same broker."""
        self._store = store
        self._membership = membership
        self._session_seconds = session_seconds
        self._lease: Lease | None = None
        self._watching: asyncio.Future[None] | None = None
        self._something = asyncio.Event()  # has happened
        self._reported: str | None = None  # the last incarnation that was reported to block it
        self._on_phase: list[Callable[[], None]] = []
        self._on_refusal: list[Callable[[ConfigError], None]] = []
        self._on_bound: list[Callable[[float], None]] = []
        self._ready: Callable[[], Awaitable[None]] | None = None
        self._bound = 0.0  # `fenced_from`, as it was reported last
        self._begun = monotonic()
        self._was_registered = False

    @property
    def phase(self) -> Phase:
        """Where this broker is between its start and its end."""
        return self._membership.phase

    @property
    def epoch(self) -> int:
        """The broker epoch of the present registration, or NO_EPOCH."""
        return self._membership.epoch

    @property
    def lease_id(self) -> int:
        """The lease that a key of this broker is attached to; 0 without one."""
        return 0 if self._lease is None else self._lease.id

    @property
    def fenced_from(self) -> float:
        """Until when this broker may acknowledge: monotonic seconds; 0 while it must not."""
        if self._lease is None or not self._membership.epoch:
            return 0.0
        self._membership.lease_renewed(self._lease.id, self._lease.valid_until)
        return self._membership.fenced_from

    @property
    def join_seconds(self) -> int:
        """For how long a broker waits at most for the end of another one with its node.id.

        etcd gives a lease its whole time again after an election of its own.
        """
        return 2 * self._session_seconds + ETCD_ELECTION_SECONDS

    @property
    def is_starting(self) -> bool:
        """Whether it waits for its first registration, and an earlier run's may still last."""
        return not self._was_registered and monotonic() < self._begun + self.join_seconds

    @property
    def may_serve(self) -> bool:
        """Whether this broker may acknowledge anything now."""
        return monotonic() < self.fenced_from

    def when_phase_changes(self, callback: Callable[[], None]) -> None:
        """Register a callback that is called when the phase or the epoch has changed.

        Also when a renewal has come so late that this broker was fenced until then.
        """
        self._on_phase.append(callback)

    def when_refused(self, callback: Callable[[ConfigError], None]) -> None:
        """Register a callback that gets why this broker can be no member: its id is taken."""
        self._on_refusal.append(callback)

    def when_bound_moves(self, callback: Callable[[float], None]) -> None:
        """Register a callback that gets `fenced_from` after each change of it."""
        self._on_bound.append(callback)

    def join_after(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Let `run` wait for something before it joins."""
        self._ready = ready

    async def run(self) -> None:
        """Join, stay and rejoin until cancelled or departed."""
        if self._ready is not None:
            await self._ready()
        while self.phase is not Phase.LEFT:
            await self.step()

    async def step(self) -> None:
        """Do what is next, and wait for what comes after it."""
        before = self.phase, self.epoch
        self._something.clear()
        match self._membership.action(monotonic()):
            case AcquireLease():
                await self._acquire()
            case Commit() as commit:
                await self._commit(commit)
            case LookUp() as look_up:
                await self._look_up(look_up)
            case ReleaseLease():
                await self._release()
            case wait:
                await self._wait(wait.until)
        self._note_bound()
        self._was_registered = self._was_registered or self.epoch != NO_EPOCH
        if before != (self.phase, self.epoch):
            self._log_phase()
            self._report_phase()

    def _log_phase(self) -> None:
        broker_id, text = self._membership.broker_id, _TEXTS[self.phase]
        if self.epoch == NO_EPOCH:
            _log.info("%s: node_id=%d", text, broker_id)
        else:
            _log.info("%s: node_id=%d broker_epoch=%d", text, broker_id, self.epoch)

    def _report_phase(self) -> None:
        for callback in self._on_phase:
            callback()

    def _note_bound(self) -> None:
        """Report until when this broker may acknowledge, if that has changed."""
        before, self._bound = self._bound, self.fenced_from
        if self._bound == before:
            return
        for callback in self._on_bound:
            callback(self._bound)
        now = monotonic()
        if 0.0 < before <= now < self._bound:
            _log.warning("the lease was renewed late: fenced for seconds=%.3f", now - before)
            self._report_phase()

    def registration_missed(self) -> None:
        """Look up the registration: the image of the cluster does not have it any more."""
        self._membership.registration_missed(monotonic())
        self._something.set()

    def drain(self) -> None:
        """Ask the controller to move what this broker leads."""
        self._membership.drain()
        self._something.set()

    def leave(self) -> None:
        """Depart now."""
        self._membership.leave()
        self._note_bound()
        self._something.set()

    async def rejoin(self) -> None:
        """End the registration, and register anew: what it says has changed."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        self._membership.lease_lost(lease.id)
        self._note_bound()
        self._report_phase()
        await _revoke(lease)
        await lease.abandon()
        self._something.set()

    async def release(self) -> None:
        """End the registration, after `run` has ended: others need not wait for that of the lease.

        No log may be open any more: who leads its partition next may open it.
        """
        if self._lease is not None:
            await _revoke(self._lease)

    async def _acquire(self) -> None:
        try:
            lease = await self._store.lease(self._session_seconds)
        except StorageError as error:
            _log.warning("no lease of the metadata store, tried again: error=%s", error)
            await asyncio.sleep(REGISTRATION_RETRY_SECONDS)
            return
        if self.phase is not Phase.JOINING:  # it was asked to leave meanwhile
            await lease.abandon()
            return
        self._lease = lease
        lease.when_renewed(self._note_bound)
        self._membership.lease_granted(lease.id, lease.valid_until)
        self._watching = asyncio.ensure_future(self._until_lost(lease))

    async def _until_lost(self, lease: Lease) -> None:
        await lease.lost.wait()
        if self._lease is lease:
            self._lease = None
        self._membership.lease_lost(lease.id)
        self._note_bound()
        self._something.set()

    async def _commit(self, commit: Commit) -> None:
        try:
            revision = await self._store.transact(
                commit.transaction.guards, commit.transaction.operations
            )
        except OutcomeUnknown as error:
            _log.warning("the outcome of the registration is not known, looked up: error=%s", error)
            self._membership.unknown(commit.lease_id, monotonic())
        except StorageError as error:
            _log.warning("not registered, tried again: error=%s", error)
            self._membership.unknown(commit.lease_id, monotonic())
        else:
            if revision is None:
                self._membership.refused(commit, monotonic())
            else:
                self._membership.applied(commit, revision)

    async def _look_up(self, look_up: LookUp) -> None:
        try:
            entry = await self._store.get(look_up.key)
            self._membership.found(look_up, entry, monotonic())
        except StorageError as error:
            _log.warning("the registration cannot be read, tried again: error=%s", error)
            self._membership.unknown(look_up.lease_id, monotonic())
            return
        if entry is not None and self._membership.blocked_by is not None:
            self._blocked(self._membership.blocked_by, entry)

    def _blocked(self, incarnation: str, entry: KeyValue) -> None:
        """Wait for the end of another process's lease; give up when it renews that."""
        registration = records.parse_registration(entry)
        broker_id = self._membership.broker_id
        addresses = ", ".join(f"{each.host}:{each.port}" for each in registration.endpoints)
        if incarnation != self._reported:
            self._reported = incarnation
            is_own = self._membership.has_place_of(registration)
            _log.warning(
                "this node.id is still registered, waiting until its session ends: node_id=%d"
                " by=%s host=%s listeners=%s at_most_seconds=%d",
                broker_id,
                "an earlier run of this broker" if is_own else "another broker",
                registration.host,
                addresses,
                self.join_seconds,
            )
        if monotonic() - self._membership.blocked_from < self.join_seconds:
            return
        refusal = ConfigError(
            f"node.id={broker_id} is that of another broker of this cluster, which runs on host"
            f" {registration.host} ({addresses}): give each broker a node.id of its own, or stop"
            " that one"
        )
        self._membership.leave()
        for callback in self._on_refusal:
            callback(refusal)

    async def _release(self) -> None:
        lease = self._lease
        if lease is None:
            return
        await _revoke(lease)
        await lease.abandon()
        await self._wait(None)

    async def _wait(self, until: float | None) -> None:
        seconds = None if until is None else max(0.0, until - monotonic())
        await is_set_within(self._something, seconds)


async def _revoke(lease: Lease) -> None:
    try:
        await lease.revoke()
    except StorageError as error:
        _log.warning("lease not revoked, it expires by itself: error=%s", error)

"""Registration, fencing and departure of one broker. It says what to do next; the driver does it.

    phase     event                                    next      action
    JOINING   no lease                                 JOINING   AcquireLease
    JOINING   lease granted                            JOINING   LookUp of the last directory
    JOINING   last directory found, or none            JOINING   Commit: register, guard Absent
    JOINING   registration applied                     JOINING   Commit: count, guard Unchanged
    JOINING   it counts                                ACTIVE    Wait
    JOINING   either is refused, or may be lost        JOINING   LookUp
    JOINING   found: none                              JOINING   LookUp of the last directory, then
                                                                 Commit: register
    JOINING   found: of this lease, fenced             JOINING   Commit: count
    JOINING   found: of this lease, and it counts      ACTIVE    Wait
    JOINING   found: of an earlier lease of ours       JOINING   Commit: withdraw that one, then
                                                                 register
    JOINING   found: of another process                JOINING   Wait, then LookUp
    ACTIVE,   registration missed                      the same  LookUp
    DRAINING
    ACTIVE    found: of this registration              ACTIVE    Wait
    ACTIVE    found: another one, or none              JOINING   Commit: register, or as above
    ACTIVE    drain                                    DRAINING  Commit: announce, guard CreatedAt
    DRAINING  announcement applied                     DRAINING  Wait
    DRAINING  announcement refused, or may be lost     DRAINING  LookUp, then announce if necessary
    JOINING   drain                                    LEAVING   ReleaseLease
    any       leave                                    LEAVING   ReleaseLease
    LEAVING   lease released, or lost                  LEFT      Wait
    JOINING,  lease lost                               JOINING   AcquireLease
    ACTIVE
    DRAINING  lease lost                               LEFT      Wait

A broker is fenced from `margin` seconds before its lease can end, whatever its phase: it serves
nothing. It does not need to register again when a renewal arrives after that, because the lease was
never without its registration. The store counts a lease from a later moment than this machine does,
so a fenced broker has stopped before the controller can elect another leader.

The revision at which the registration was created is the broker epoch. The incarnation names the
process and the number of its registration: one whose outcome was unknown is recognized by it. A
late result of an action for an earlier lease is ignored.

A broker registers in two steps. The first registration is fenced: it counts for nobody, because it
may arrive at the store after the death of its process, when nobody can serve what it is elected
for, and the disk may be gone, too. The second step is made when the process has seen the first one.
It changes that registration, or nothing once its lease has ended.

A registration says since when the broker's directory is intact, and others rely on that. So it also
puts `directory/<id>`, with the guard that nobody has since the broker has read it: the late
transaction of a process that is gone does not register a directory that another one has replaced. A
directory that is intact since an earlier revision than the last one that was registered was put
back in the place of that one: it lacks what that one has acknowledged, and begins anew.

A registration that is gone while its lease lasts was deleted by another broker, for which this one
looked dead (fencing.py): the broker stops serving and registers again with the same lease.
"""

from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from broker.core.cluster import records
from broker.core.cluster.records import NO_EPOCH, BrokerState, Registration, Transaction
from broker.model.limits import REGISTRATION_RETRY_SECONDS
from broker.storage.metadata import Absent, CreatedAt, Delete, KeyValue, Put, Unchanged

_NO_LEASE = 0


class Phase(Enum):
    """Where a broker is between its start and its end."""

    JOINING = auto()
    ACTIVE = auto()
    DRAINING = auto()
    LEAVING = auto()
    LEFT = auto()


class AcquireLease(NamedTuple):
    """Ask the store for a lease; then call `lease_granted`."""


class Commit(NamedTuple):
    """Execute a transaction; then call `applied`, `refused` or `unknown`."""

    lease_id: int
    transaction: Transaction


class LookUp(NamedTuple):
    """Read a key; then call `found`."""

    lease_id: int
    key: bytes


class ReleaseLease(NamedTuple):
    """Stop serving everything, revoke the lease, and call `lease_lost`, also if that fails."""

    lease_id: int


class Wait(NamedTuple):
    """Do nothing until another call, or until a time of the monotonic clock in seconds."""

    until: float | None


Action: TypeAlias = AcquireLease | Commit | LookUp | ReleaseLease | Wait


class Membership:
    """The membership of one broker process.

    Attributes:
        broker_id: the node id.
        phase: see the table.
        epoch: the broker epoch while the broker is registered; NO_EPOCH otherwise.
        blocked_by: the incarnation of another process with this broker's id, or None.
        blocked_from: when that incarnation was found first, in seconds of the monotonic clock.
    """

    __slots__ = (
        "_directory",
        "_fenced",
        "_is_announced",
        "_is_directory_known",
        "_lease_id",
        "_look_at",
        "_margin",
        "_process",
        "_registration",
        "_registration_count",
        "_valid_until",
        "_withdrawn",
        "blocked_by",
        "blocked_from",
        "broker_id",
        "epoch",
        "phase",
    )

    def __init__(
        self, broker_id: int, registration: Registration, process: str, margin: float
    ) -> None:
        """Begin to join.

        Args:
            broker_id: the node id of the configuration.
            registration: endpoints, rack, host, and since when its directory is intact; the other
                fields are set here.
            process: a random id of this process.
            margin: for how many seconds before the end of its lease a broker is fenced.
        """
        self.phase = Phase.JOINING
        self.epoch = NO_EPOCH
        self.blocked_by: str | None = None
        self.blocked_from = 0.0
        self.broker_id = broker_id
        self._registration = registration
        self._process = process
        self._margin = margin
        self._registration_count = 0  # of leases, and of registrations that were missed
        self._lease_id = _NO_LEASE
        self._valid_until = 0.0
        self._look_at: float | None = None  # when to read the registration
        self._withdrawn = NO_EPOCH  # epoch of an earlier registration that has to be deleted
        self._fenced = NO_EPOCH  # epoch of the present registration, while it does not count
        self._is_announced = False
        self._directory: KeyValue | None = None  # the one that was registered last
        self._is_directory_known = False

    def advertise(self, endpoints: tuple[records.Endpoint, ...]) -> None:
        """Set the endpoints, before the first registration."""
        self._registration = self._registration._replace(endpoints=endpoints)

    @property
    def intact_since(self) -> int:
        """Since when the directory has lost nothing, by the last registration; NO_EPOCH: none."""
        return self._registration.intact_since

    def set_intact_since(self, revision: int) -> None:
        """Set since when the directory has lost nothing, for the next registration."""
        self._registration = self._registration._replace(intact_since=revision)

    def has_place_of(self, registration: Registration) -> bool:
        """Return whether a registration names this broker's host and endpoints."""
        ours = self._registration
        return (registration.host, registration.endpoints) == (ours.host, ours.endpoints)

    def may_serve(self, now: float) -> bool:
        """Return whether the broker is registered and not fenced.

        Checked before each answer that acknowledges something.

        Args:
            now: the monotonic clock, in seconds.
        """
        return self.epoch != NO_EPOCH and now < self._valid_until - self._margin

    @property
    def fenced_from(self) -> float:
        """When `may_serve` becomes false unless the lease is renewed."""
        return self._valid_until - self._margin

    def action(self, now: float) -> Action:
        """Return what to do next; the same until another call changes it, or its time comes."""
        if self.phase is Phase.LEFT:
            return Wait(None)
        if self.phase is Phase.LEAVING:
            return ReleaseLease(self._lease_id)
        if self._lease_id == _NO_LEASE:
            return AcquireLease()
        if self._look_at is None:
            if self._reads_directory:
                return LookUp(self._lease_id, self._directory_key)
            return self._commit() or Wait(None)
        return LookUp(self._lease_id, self._key) if now >= self._look_at else Wait(self._look_at)

    # ---- the lease
    # ---------------------------------------------------------------------------------------------

    def lease_granted(self, lease_id: int, valid_until: float) -> None:
        """Note a new lease, and until when it is certainly valid."""
        if self.phase is not Phase.JOINING or self._lease_id != _NO_LEASE:
            return  # the driver lets it end
        self._registration_count += 1
        self._lease_id = lease_id
        self._valid_until = valid_until
        self._is_directory_known = False

    def lease_renewed(self, lease_id: int, valid_until: float) -> None:
        """Note a renewal, and until when the lease is certainly valid now."""
        if lease_id == self._lease_id:
            self._valid_until = max(self._valid_until, valid_until)

    def lease_lost(self, lease_id: int) -> None:
        """Note that a lease has ended or cannot be relied on any more."""
        if lease_id != self._lease_id:
            return
        is_last = self.phase in {Phase.DRAINING, Phase.LEAVING}
        self.phase = Phase.LEFT if is_last else Phase.JOINING
        self.epoch = NO_EPOCH
        self._lease_id = _NO_LEASE
        self._look_at = None
        self._withdrawn = self._fenced = NO_EPOCH

    def registration_missed(self, now: float) -> None:
        """Note that the registration seems to be gone."""
        if self.phase in {Phase.ACTIVE, Phase.DRAINING}:
            self._look_at = now

    # ---- departure
    # ---------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Begin a planned departure: the controller moves this broker's leaderships."""
        if self.phase is Phase.JOINING:
            self.leave()
        elif self.phase is Phase.ACTIVE:
            self.phase = Phase.DRAINING

    def leave(self) -> None:
        """Depart now: everything is moved, or the time for that has passed."""
        if self.phase is Phase.LEFT:
            return
        self.epoch = NO_EPOCH
        self.phase = Phase.LEFT if self._lease_id == _NO_LEASE else Phase.LEAVING

    # ---- results of actions
    # ---------------------------------------------------------------------------------------------

    def applied(self, commit: Commit, revision: int) -> None:
        """Report that a transaction was applied at a revision."""
        if commit.lease_id != self._lease_id:
            return
        if self._withdrawn != NO_EPOCH:
            self._withdrawn = NO_EPOCH
        elif self.phase is Phase.JOINING and self._fenced == NO_EPOCH:
            self._fenced = revision
        elif self.phase is Phase.JOINING:
            self._joined(self._fenced)
        elif self.phase is Phase.DRAINING:
            self._is_announced = True

    def refused(self, commit: Commit, now: float) -> None:
        """Report that a guard of a transaction did not hold."""
        if commit.lease_id == self._lease_id:
            self._look_at = now

    def unknown(self, lease_id: int, now: float) -> None:
        """Report that an action has failed, or that its outcome is not known."""
        if lease_id == self._lease_id:
            self._look_at = now + REGISTRATION_RETRY_SECONDS

    def found(self, look_up: LookUp, entry: KeyValue | None, now: float) -> None:
        """Report what a key has; StorageError when it cannot be parsed."""
        if look_up.lease_id != self._lease_id:
            return
        if look_up.key == self._directory_key:
            self._found_directory(entry)
        elif self._look_at is not None:
            self._found_registration(entry, now)

    def _found_directory(self, entry: KeyValue | None) -> None:
        if not self._reads_directory or self._look_at is not None:
            return
        if entry is not None:
            intact_since = records.parse_directory(entry)
            if self._registration.intact_since < intact_since:
                self._registration = self._registration._replace(intact_since=NO_EPOCH)
        self._directory, self._is_directory_known = entry, True

    def _found_registration(self, entry: KeyValue | None, now: float) -> None:
        self._look_at = None
        self._is_directory_known = False
        self._withdrawn = NO_EPOCH
        was_fenced, self._fenced = self._fenced != NO_EPOCH, NO_EPOCH
        blocked_before, self.blocked_by = self.blocked_by, None
        registered = None if entry is None else records.parse_registration(entry)
        if self.phase is Phase.DRAINING:
            self._is_announced = registered is not None and registered.state is BrokerState.DRAINING
            if registered is None or registered.incarnation != self._incarnation:
                self.leave()  # it was fenced, or its lease has ended and it has not heard of that
        elif self.phase is Phase.ACTIVE:
            if registered is None or registered.incarnation != self._incarnation:
                self.phase = Phase.JOINING
                self.epoch = NO_EPOCH
                self._registration_count += 1
                self._look_at = None if registered is None else now
        elif entry is None or registered is None:
            self._registration_count += was_fenced  # that registration has gone
        elif self.phase is Phase.JOINING:
            self._found_while_joining(registered, entry.create_revision)
            if self.blocked_by is not None:
                self._look_at = now + REGISTRATION_RETRY_SECONDS
                if self.blocked_by != blocked_before:
                    self.blocked_from = now

    def _found_while_joining(self, registered: Registration, epoch: int) -> None:
        if registered.incarnation == self._incarnation and registered.is_fenced:
            self._fenced = epoch
        elif registered.incarnation == self._incarnation:
            self._joined(epoch)
        elif registered.incarnation.rpartition(".")[0] == self._process:
            self._withdrawn = epoch
        else:
            self.blocked_by = registered.incarnation

    # ---- parts
    # ---------------------------------------------------------------------------------------------

    @property
    def _key(self) -> bytes:
        return records.broker_key(self.broker_id)

    @property
    def _directory_key(self) -> bytes:
        return records.directory_key(self.broker_id)

    @property
    def _reads_directory(self) -> bool:
        return (
            self.phase is Phase.JOINING
            and self._withdrawn == NO_EPOCH
            and self._fenced == NO_EPOCH
            and not self._is_directory_known
        )

    @property
    def _incarnation(self) -> str:
        return f"{self._process}.{self._registration_count}"

    def _commit(self) -> Commit | None:
        if self._withdrawn != NO_EPOCH:
            transaction = Transaction([CreatedAt(self._key, self._withdrawn)], [Delete(self._key)])
        elif self.phase is Phase.JOINING and self._fenced != NO_EPOCH:
            operation = self._put(BrokerState.RUNNING)
            transaction = Transaction([Unchanged(self._key, self._fenced)], [operation])
        elif self.phase is Phase.JOINING:
            transaction = self._registering()
        elif self.phase is Phase.DRAINING and not self._is_announced:
            operation = self._put(BrokerState.DRAINING)
            transaction = Transaction([CreatedAt(self._key, self.epoch)], [operation])
        else:
            return None
        return Commit(self._lease_id, transaction)

    def _registering(self) -> Transaction:
        key, last = self._directory_key, self._directory
        is_last = Absent(key) if last is None else Unchanged(key, last.mod_revision)
        directory = records.directory_value(self._registration.intact_since)
        return Transaction(
            [Absent(self._key), is_last],
            [self._put(BrokerState.RUNNING, is_fenced=True), Put(key, directory)],
        )

    def _put(self, state: BrokerState, *, is_fenced: bool = False) -> Put:
        value = self._registration._replace(
            incarnation=self._incarnation, state=state, is_fenced=is_fenced
        )
        return Put(self._key, records.registration_value(value), self._lease_id)

    def _joined(self, epoch: int) -> None:
        self.phase = Phase.ACTIVE
        self.epoch = epoch
        self.blocked_by = None
        self._fenced = NO_EPOCH
        if self._registration.intact_since == NO_EPOCH:
            # A later registration of this process says so, too: its directory is the same.
            self._registration = self._registration._replace(intact_since=epoch)

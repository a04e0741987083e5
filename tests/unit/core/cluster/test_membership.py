"""Registration, fencing and departure of a broker, and every order of their failures."""

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.core.cluster import records
from broker.core.cluster.membership import (
    AcquireLease,
    Commit,
    LookUp,
    Membership,
    Phase,
    ReleaseLease,
    Wait,
)
from broker.core.cluster.records import BrokerState, Endpoint, Registration
from broker.model.limits import REGISTRATION_RETRY_SECONDS
from broker.storage.metadata import Delete, Put
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = records.broker_key(1)
DIRECTORY = records.directory_key(1)
PROFILE = Registration("", (Endpoint("PLAINTEXT", "h", 9092),), "r", "h", BrokerState.RUNNING)
LEASE_SECONDS = 3.0
MARGIN = 1.0


def new_member(process: str = "process") -> Membership:
    return Membership(1, PROFILE, process, MARGIN)


class Driver:
    """Executes actions on a store without failures."""

    def __init__(self, store: MemoryStore, process: str = "process") -> None:
        self.store = store
        self.now = 100.0
        self.member = new_member(process)

    def step(self) -> Any:
        """Execute the next action and return it."""
        action = self.member.action(self.now)
        match action:
            case AcquireLease():
                self.member.lease_granted(self.store.grant(), self.now + LEASE_SECONDS)
            case Commit(_, transaction):
                revision = self.store.transact(*transaction)
                if revision is None:
                    self.member.refused(action, self.now)
                else:
                    self.member.applied(action, revision)
            case LookUp(_, key):
                self.member.found(action, self.store.get(key), self.now)
            case ReleaseLease(lease_id):
                self.store.expire(lease_id)
                self.member.lease_lost(lease_id)
        return action

    def begin(self) -> None:
        """Get a lease and read which directory was registered last."""
        assert isinstance(self.step(), AcquireLease)
        assert self.step() == LookUp(len(self.store.leases), DIRECTORY)

    def settle(self) -> None:
        """Execute actions until the broker waits."""
        for _ in range(10):
            if isinstance(self.step(), Wait):
                return
        pytest.fail("the membership does not come to rest")

    @property
    def phase(self) -> Phase:
        return self.member.phase

    @property
    def registered(self) -> Registration | None:
        entry = self.store.get(KEY)
        return None if entry is None else records.parse_registration(entry)


@pytest.fixture
def driver() -> Driver:
    return Driver(MemoryStore())


def test_a_broker_gets_a_lease_registers_and_has_the_revision_as_its_epoch(driver: Driver) -> None:
    driver.store.transact([], [Put(b"other", b"")])

    driver.begin()
    assert isinstance(driver.step(), Commit)
    assert isinstance(driver.step(), Commit)

    assert driver.member.phase is Phase.ACTIVE
    assert driver.member.epoch == 2
    assert driver.registered == PROFILE._replace(incarnation="process.1")
    assert driver.step() == Wait(None)


def test_a_registration_counts_only_after_its_process_has_seen_it(driver: Driver) -> None:
    driver.begin()
    assert isinstance(driver.step(), Commit)

    assert driver.registered == PROFILE._replace(incarnation="process.1", is_fenced=True)
    assert driver.phase.name == "JOINING"
    assert not driver.member.may_serve(driver.now)
    assert isinstance(driver.step(), Commit)
    assert driver.registered == PROFILE._replace(incarnation="process.1")
    assert driver.phase is Phase.ACTIVE


def test_the_second_step_of_a_registration_changes_nothing_once_its_lease_has_ended(
    driver: Driver,
) -> None:
    driver.begin()
    driver.step()
    late = driver.member.action(driver.now)
    assert isinstance(late, Commit)
    driver.store.expire(1)
    next_one = Driver(driver.store, "next")
    next_one.begin()
    next_one.step()

    assert driver.store.transact(*late.transaction) is None
    assert driver.registered == PROFILE._replace(incarnation="next.1", is_fenced=True)


@pytest.mark.parametrize("is_applied", [True, False])
def test_the_second_step_of_a_registration_whose_answer_was_lost_is_looked_up(
    driver: Driver, is_applied: bool
) -> None:
    driver.begin()
    driver.step()
    commit = driver.member.action(driver.now)
    assert isinstance(commit, Commit)
    if is_applied:
        driver.store.transact(*commit.transaction)
    driver.member.unknown(commit.lease_id, driver.now)
    driver.now += REGISTRATION_RETRY_SECONDS

    assert isinstance(driver.step(), LookUp)
    assert isinstance(driver.step(), Wait if is_applied else Commit)
    assert driver.phase is Phase.ACTIVE
    assert driver.member.epoch == 1
    assert driver.registered == PROFILE._replace(incarnation="process.1")


def test_a_late_second_step_of_a_registration_does_not_end_a_departure(driver: Driver) -> None:
    driver.begin()
    driver.step()
    late = driver.member.action(driver.now)
    assert isinstance(late, Commit)
    driver.member.unknown(late.lease_id, driver.now)
    driver.now += REGISTRATION_RETRY_SECONDS
    driver.settle()
    driver.member.drain()
    driver.settle()

    assert driver.store.transact(*late.transaction) is None
    assert driver.registered is not None
    assert driver.registered.state is BrokerState.DRAINING


def test_a_registration_that_was_deleted_before_its_second_step_is_made_anew(
    driver: Driver,
) -> None:
    driver.begin()
    driver.step()
    driver.store.transact([], [Delete(KEY)])

    driver.settle()

    assert driver.phase is Phase.ACTIVE
    assert driver.registered == PROFILE._replace(incarnation="process.2")
    assert driver.member.intact_since == driver.member.epoch == 3


def test_an_active_broker_is_fenced_before_its_lease_can_end_and_serves_again_when_renewed(
    driver: Driver,
) -> None:
    driver.settle()
    member, granted = driver.member, driver.now

    assert member.fenced_from == granted + LEASE_SECONDS - MARGIN
    assert member.may_serve(member.fenced_from - 0.001)
    assert not member.may_serve(member.fenced_from)
    member.lease_renewed(1, granted + 10)
    assert member.may_serve(granted + 5)
    member.lease_renewed(1, granted + 7)  # an older answer
    assert member.fenced_from == granted + 10 - MARGIN


def test_a_broker_that_has_not_registered_serves_nothing(driver: Driver) -> None:
    assert not driver.member.may_serve(driver.now)
    driver.step()
    assert not driver.member.may_serve(driver.now)


def test_a_broker_that_has_lost_its_lease_joins_with_a_new_epoch(driver: Driver) -> None:
    driver.settle()
    first = driver.member.epoch
    driver.store.expire(1)

    driver.member.lease_lost(1)
    assert driver.phase is Phase.JOINING
    assert not driver.member.may_serve(driver.now)
    driver.settle()

    assert driver.member.phase is Phase.ACTIVE
    assert driver.member.epoch > first
    assert driver.registered == PROFILE._replace(incarnation="process.2", intact_since=first)


def test_a_broker_withdraws_its_earlier_registration_instead_of_waiting_for_its_end(
    driver: Driver,
) -> None:
    driver.settle()
    first = driver.member.epoch
    driver.member.lease_lost(1)  # the store has it still

    driver.settle()

    assert driver.member.epoch > first
    assert driver.registered == PROFILE._replace(incarnation="process.2", intact_since=first)


def test_a_late_registration_of_a_process_whose_directory_was_replaced_is_refused(
    driver: Driver,
) -> None:
    driver.begin()
    late = driver.member.action(driver.now)
    assert isinstance(late, Commit)
    replaced = Driver(driver.store, "replaced")
    replaced.settle()
    driver.store.expire(2)

    assert driver.store.transact(*late.transaction) is None


def test_a_directory_that_was_put_back_in_the_place_of_a_later_one_begins_anew(
    driver: Driver,
) -> None:
    driver.settle()
    kept, driver.member = driver.member.intact_since, new_member("emptied")
    driver.store.expire(1)
    driver.settle()
    driver.store.expire(2)
    driver.member = new_member("put back")
    driver.member.set_intact_since(kept)

    driver.settle()

    assert driver.registered == PROFILE._replace(incarnation="put back.1")
    assert driver.member.intact_since == driver.member.epoch > kept


def test_a_directory_is_as_intact_after_a_restart_as_before(driver: Driver) -> None:
    driver.settle()
    since = driver.member.intact_since
    for lease_id in (1, 2):
        driver.store.expire(lease_id)
        driver.member = new_member("next")
        driver.member.set_intact_since(since)
        driver.settle()

    assert driver.member.intact_since == since == 1


def test_a_broker_waits_while_another_process_has_its_id(driver: Driver) -> None:
    other = Driver(driver.store, "other")
    other.settle()

    driver.settle()

    assert driver.member.blocked_by == "other.1"
    assert driver.member.action(driver.now) == Wait(driver.now + REGISTRATION_RETRY_SECONDS)
    driver.store.expire(1)
    driver.now += REGISTRATION_RETRY_SECONDS
    driver.settle()
    assert driver.member.phase is Phase.ACTIVE
    assert driver.member.blocked_by is None


def test_a_registration_whose_answer_was_lost_is_recognized(driver: Driver) -> None:
    driver.begin()
    commit = driver.member.action(driver.now)
    assert isinstance(commit, Commit)
    revision = driver.store.transact(*commit.transaction)
    driver.member.unknown(commit.lease_id, driver.now)

    assert driver.member.action(driver.now) == Wait(driver.now + REGISTRATION_RETRY_SECONDS)
    driver.now += REGISTRATION_RETRY_SECONDS
    assert isinstance(driver.step(), LookUp)
    driver.settle()

    assert driver.member.phase is Phase.ACTIVE
    assert driver.member.epoch == revision


def test_a_registration_that_is_applied_late_is_recognized(driver: Driver) -> None:
    driver.begin()
    commit = driver.member.action(driver.now)
    assert isinstance(commit, Commit)
    driver.member.unknown(commit.lease_id, driver.now)
    driver.now += REGISTRATION_RETRY_SECONDS
    driver.step()  # nothing is found
    revision = driver.store.transact(*commit.transaction)

    driver.settle()

    assert driver.member.epoch == revision


@pytest.mark.parametrize("result", ["applied", "refused", "unknown", "found"])
def test_a_late_result_for_an_earlier_lease_is_ignored(driver: Driver, result: str) -> None:
    driver.begin()
    commit = driver.member.action(driver.now)
    assert isinstance(commit, Commit)
    driver.member.lease_lost(1)
    driver.begin()
    late: dict[str, Callable[[], None]] = {
        "applied": lambda: driver.member.applied(commit, 5),
        "refused": lambda: driver.member.refused(commit, driver.now),
        "unknown": lambda: driver.member.unknown(1, driver.now),
        "found": lambda: driver.member.found(LookUp(1, KEY), None, driver.now),
    }

    late[result]()

    assert driver.member.phase is Phase.JOINING
    assert isinstance(driver.member.action(driver.now), Commit)


def test_a_draining_broker_announces_it_and_keeps_its_epoch(driver: Driver) -> None:
    driver.settle()
    epoch = driver.member.epoch

    driver.member.drain()
    driver.settle()

    assert driver.member.phase is Phase.DRAINING
    assert driver.member.epoch == epoch
    assert driver.member.may_serve(driver.now)
    entry = driver.store.get(KEY)
    assert entry is not None
    assert entry.create_revision == epoch
    assert driver.registered == PROFILE._replace(
        incarnation="process.1", state=BrokerState.DRAINING, intact_since=epoch
    )


@pytest.mark.parametrize("is_applied", [True, False])
def test_an_announcement_whose_answer_was_lost_is_looked_up(
    driver: Driver, is_applied: bool
) -> None:
    driver.settle()
    driver.member.drain()
    commit = driver.member.action(driver.now)
    assert isinstance(commit, Commit)
    if is_applied:
        driver.store.transact(*commit.transaction)
    driver.member.unknown(commit.lease_id, driver.now)
    driver.now += REGISTRATION_RETRY_SECONDS

    assert isinstance(driver.step(), LookUp)
    assert isinstance(driver.step(), Wait if is_applied else Commit)
    assert driver.registered is not None
    assert driver.registered.state is BrokerState.DRAINING


def test_a_broker_that_leaves_serves_nothing_before_its_lease_is_released(driver: Driver) -> None:
    driver.settle()
    driver.member.drain()
    driver.settle()

    driver.member.leave()
    assert not driver.member.may_serve(driver.now)
    assert isinstance(driver.step(), ReleaseLease)

    assert driver.member.phase is Phase.LEFT
    assert driver.registered is None
    assert driver.step() == Wait(None)
    driver.member.leave()
    driver.member.drain()
    assert driver.member.phase is Phase.LEFT


def test_a_broker_that_drains_before_it_has_registered_leaves(driver: Driver) -> None:
    driver.member.drain()
    assert driver.member.phase is Phase.LEFT

    other = Driver(driver.store)
    other.step()
    other.member.drain()
    assert isinstance(other.step(), ReleaseLease)
    assert other.member.phase is Phase.LEFT


def test_a_draining_broker_whose_lease_ends_has_left(driver: Driver) -> None:
    driver.settle()
    driver.member.drain()

    driver.member.lease_lost(1)

    assert driver.member.phase is Phase.LEFT


def test_a_draining_broker_that_is_not_registered_any_more_leaves(driver: Driver) -> None:
    driver.settle()
    driver.store.expire(1)
    driver.member.drain()

    driver.settle()

    assert driver.member.phase is Phase.LEFT


def test_a_broker_whose_registration_was_deleted_registers_again_with_its_lease(
    driver: Driver,
) -> None:
    driver.settle()
    first = driver.member.epoch
    driver.store.transact([], [Delete(KEY)])

    driver.member.registration_missed(driver.now)
    assert isinstance(driver.step(), LookUp)
    assert driver.phase.name == "JOINING"
    assert not driver.member.may_serve(driver.now)
    driver.settle()

    assert driver.phase is Phase.ACTIVE
    assert driver.member.epoch > first
    assert driver.registered == PROFILE._replace(incarnation="process.2", intact_since=first)
    assert len(driver.store.leases) == 1


def test_a_registration_that_is_there_after_all_is_kept(driver: Driver) -> None:
    driver.settle()
    epoch = driver.member.epoch

    driver.member.registration_missed(driver.now)
    driver.settle()

    assert (driver.phase, driver.member.epoch) == (Phase.ACTIVE, epoch)


def test_a_look_for_a_registration_that_fails_is_made_again_later(driver: Driver) -> None:
    driver.settle()
    first = driver.member.epoch
    driver.store.transact([], [Delete(KEY)])
    driver.member.registration_missed(driver.now)

    driver.member.unknown(1, driver.now)
    assert driver.phase is Phase.ACTIVE
    assert driver.member.action(driver.now) == Wait(driver.now + REGISTRATION_RETRY_SECONDS)
    driver.now += REGISTRATION_RETRY_SECONDS
    driver.settle()

    assert driver.registered == PROFILE._replace(incarnation="process.2", intact_since=first)


def test_a_broker_in_whose_place_another_process_was_registered_waits_for_that_one(
    driver: Driver,
) -> None:
    driver.settle()
    driver.store.transact([], [Delete(KEY)])
    Driver(driver.store, "other").settle()

    driver.member.registration_missed(driver.now)
    driver.settle()

    assert driver.phase is Phase.JOINING
    assert driver.member.blocked_by == "other.1"


def test_a_draining_broker_whose_registration_was_deleted_leaves(driver: Driver) -> None:
    driver.settle()
    driver.member.drain()
    driver.settle()
    driver.store.transact([], [Delete(KEY)])

    driver.member.registration_missed(driver.now)
    driver.settle()

    assert driver.phase is Phase.LEFT


@pytest.mark.parametrize("phase", [Phase.JOINING, Phase.LEFT])
def test_who_is_not_registered_misses_nothing(driver: Driver, phase: Phase) -> None:
    if phase is Phase.LEFT:
        driver.member.leave()
    before = driver.member.action(driver.now)

    driver.member.registration_missed(driver.now)

    assert driver.member.action(driver.now) == before


def test_a_lease_that_comes_too_late_is_not_used(driver: Driver) -> None:
    driver.member.drain()

    driver.member.lease_granted(7, driver.now + 3)

    assert driver.member.action(driver.now) == Wait(None)


class MembershipMachine(RuleBasedStateMachine):
    """Two processes with one id, whose leases end and whose answers are lost, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.drivers = [Driver(self.store, "p"), Driver(self.store, "q")]
        self.late: list[Commit] = []

    @rule(which=st.integers(0, 1))
    def acts(self, which: int) -> None:
        driver = self.drivers[which]
        action = driver.member.action(driver.now)
        if isinstance(action, Commit) and self.store.is_ended(action.lease_id):
            driver.member.lease_lost(action.lease_id)
        else:
            driver.step()

    @rule(which=st.integers(0, 1), is_applied=st.sampled_from(["now", "never", "later"]))
    def answer_is_lost(self, which: int, is_applied: str) -> None:
        driver = self.drivers[which]
        action = driver.member.action(driver.now)
        if not isinstance(action, Commit):
            return
        if is_applied == "later":
            self.late.append(action)
        elif is_applied == "now" and not self.store.is_ended(action.lease_id):
            self.store.transact(*action.transaction)
        driver.member.unknown(action.lease_id, driver.now)

    @precondition(lambda self: self.late)
    @rule()
    def late_change_arrives(self) -> None:
        action = self.late.pop()
        if not self.store.is_ended(action.lease_id):
            self.store.transact(*action.transaction)

    @rule(lease=st.integers(1, 8))
    def lease_ends(self, lease: int) -> None:
        if lease in self.store.leases and not self.store.is_ended(lease):
            for driver in self.drivers:  # they have stopped before
                driver.member.lease_lost(lease)
            self.store.expire(lease)

    @rule(which=st.integers(0, 1))
    def lease_is_believed_to_be_lost(self, which: int) -> None:
        member = self.drivers[which].member
        member.lease_lost(member._lease_id)

    @rule()
    def registration_is_deleted(self) -> None:
        """By another broker; the one that was registered serves until it has heard of that."""
        self.store.transact([], [Delete(KEY)])
        for driver in self.drivers:
            driver.member.registration_missed(driver.now)
            if isinstance(driver.member.action(driver.now), LookUp):
                driver.step()

    @rule(which=st.integers(0, 1))
    def drains(self, which: int) -> None:
        self.drivers[which].member.drain()

    @rule(which=st.integers(0, 1))
    def leaves(self, which: int) -> None:
        self.drivers[which].member.leave()

    @rule(seconds=st.sampled_from([0.1, REGISTRATION_RETRY_SECONDS]))
    def time_passes(self, seconds: float) -> None:
        for driver in self.drivers:
            driver.now += seconds
            driver.member.lease_renewed(driver.member._lease_id, driver.now + LEASE_SECONDS)

    @invariant()
    def only_a_registered_incarnation_serves(self) -> None:
        entry = self.store.get(KEY)
        for driver in self.drivers:
            if driver.member.may_serve(driver.now):
                assert entry is not None
                assert driver.member.epoch == entry.create_revision
                registered = records.parse_registration(entry)
                assert registered.incarnation == driver.member._incarnation
                assert not registered.is_fenced
                is_announced = driver.phase is Phase.DRAINING and driver.member._is_announced
                assert not is_announced or registered.state is BrokerState.DRAINING

    def teardown(self) -> None:
        """Let the first one leave, and the second one join, unless it has left."""
        first, second = self.drivers
        first.member.leave()
        for lease in list(self.store.leases):
            if lease != second.member._lease_id:
                self.lease_ends(lease)
        for _ in range(20):
            self.acts(0)
            self.acts(1)
            self.time_passes(REGISTRATION_RETRY_SECONDS)
        assert first.member.phase is Phase.LEFT
        assert second.member.phase in {Phase.ACTIVE, Phase.DRAINING, Phase.LEFT}
        assert second.member.action(second.now) == Wait(None)


TestMembershipMachine = MembershipMachine.TestCase

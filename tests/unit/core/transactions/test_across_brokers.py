"""Transactions over partitions of two brokers, of which one is the coordinator."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from broker.codec.control_records import Marker
from broker.core.peers import code_of
from broker.core.transactions.commands import (
    AddRequest,
    EndRequest,
    InitRequest,
    Producer,
    VerifyRequest,
)
from broker.core.transactions.end_rules import EPOCH_BUMP_VERSION
from broker.core.transactions.other_brokers import OtherBrokers
from broker.core.transactions.records import TopicPartition, TransactionState
from broker.core.transactions.remote_admission import RemoteAdmission
from broker.core.transactions.remote_markers import RemoteMarkers
from broker.model import limits
from broker.model.errors import ErrorCode, Unreachable
from tests.support.memory_log import ClientLog
from tests.unit.core.transactions.broker import FIRST, NONE, OFFSETS, SECOND, Broker
from tests.unit.core.transactions.peers import FakePeers, settle, verified, written

COORDINATOR, LEADER, THIRD = 1, 2, 3
ONGOING = TransactionState.ONGOING
PREPARED = TransactionState.PREPARE_COMMIT
COMMITTED = TransactionState.COMPLETE_COMMIT
ABORTED = TransactionState.COMPLETE_ABORT


class Cluster:
    """Broker 1 coordinates and leads FIRST; 2 leads SECOND; 3 leads nothing yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.leaders: dict[TopicPartition, int] = {FIRST: COORDINATOR, SECOND: LEADER}
        self.coordinator_id = COORDINATOR
        self.peers = FakePeers()
        self.peers.answer = self.serve
        self.unreachable: set[int] = set()
        self.on_change: list[Callable[[], None]] = []
        self.brokers = {each: self.broker(each) for each in (COORDINATOR, LEADER, THIRD)}
        self.brokers[COORDINATOR].recover()

    def broker(self, broker_id: int) -> Broker:
        """A broker with the logs that it leads."""

        def find(place: TopicPartition) -> Any:
            return self.brokers[broker_id].logs.get(place)

        admission = RemoteAdmission(broker_id, find, lambda _: self.coordinator_id, self.peers)
        markers = RemoteMarkers(broker_id, self.leaders.get, self.peers)
        made = Broker(self.loop, OtherBrokers(markers, admission, self.on_change.append))
        made.is_coordinator = broker_id == self.coordinator_id
        made.logs = {
            place: ClientLog() for place, each in self.leaders.items() if each == broker_id
        }
        return made

    def serve(self, broker_id: int, body: Any) -> Any:
        """Answer a request as the handlers of that broker do."""
        if broker_id in self.unreachable:
            return Unreachable("no answer")
        transactions = self.brokers[broker_id].transactions
        if "markers" in body:
            [sent] = body["markers"]
            marker = Marker(
                sent["producer_id"],
                sent["producer_epoch"],
                sent["transaction_result"],
                sent["coordinator_epoch"],
            )
            [topic] = sent["topics"]
            [number] = topic["partition_indexes"]
            place = (topic["name"], number)
            version = sent["transaction_version"]
            return written(body, transactions.write_marker(place, marker, version).result())
        [asked] = body["transactions"]
        producer = Producer(
            asked["transactional_id"], asked["producer_id"], asked["producer_epoch"]
        )
        [topic] = asked["topics"]
        places = tuple((topic["name"], each) for each in topic["partitions"])
        if asked["verify_only"]:
            [error] = transactions.verify(VerifyRequest(producer, places)).result().errors
        else:
            request = AddRequest(producer, places, EPOCH_BUMP_VERSION)
            error = transactions.add(request).result()
        return verified(body, error)

    def move(self, place: TopicPartition, broker_id: int) -> None:
        """Let another broker lead a partition: its log goes with it."""
        log = self.brokers[self.leaders[place]].logs.pop(place)
        log.admitted.clear()
        self.leaders[place] = broker_id
        self.brokers[broker_id].logs[place] = log

    def leaders_changed(self) -> None:
        """Let all brokers learn that others lead partitions."""
        for callback in self.on_change:
            callback()

    @property
    def coordinator(self) -> Broker:
        return self.brokers[self.coordinator_id]

    def log(self, place: TopicPartition) -> ClientLog:
        return self.brokers[self.leaders[place]].logs[place]

    async def admit(
        self, producer: Producer, place: TopicPartition, *, adds: bool = False
    ) -> ErrorCode:
        """Ask as the leader that gets a batch."""
        leader = self.brokers[self.leaders[place]].transactions
        return (await leader.admit(*producer, [place], adds_implicitly=adds))[place]

    async def begin(self, *places: TopicPartition) -> Producer:
        """An older producer that has added partitions and written to them."""
        producer = self.coordinator.init()
        assert self.coordinator.add(producer, *places).result() is NONE
        for place in places:
            assert await self.admit(producer, place) is NONE
            assert self.log(place).send(*producer[1:])
        return producer

    async def retry(self) -> None:
        """Let the delay of retries pass, and what follows."""
        await settle()
        self.coordinator.tick()  # notices what has failed
        self.coordinator.tick(limits.TRANSACTION_RETRY_MS)
        await settle()

    def markers(self, place: TopicPartition) -> list[tuple[bool, int]]:
        """The outcome and the coordinator epoch of each marker of a log."""
        log = self.log(place)
        return [(marker.is_committed, marker.coordinator_epoch) for marker in log.markers]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    loop = asyncio.new_event_loop()
    yield Cluster(loop)
    loop.close()


def run(cluster: Cluster, steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
    cluster.loop.run_until_complete(steps())


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_writes_a_marker_wherever_a_partition_is_led(
    cluster: Cluster, is_commit: bool
) -> None:
    async def steps() -> None:
        producer = await cluster.begin(FIRST, SECOND)
        ended = cluster.coordinator.end(producer, is_commit=is_commit)
        await settle()

        assert ended.result().error is NONE
        for place in (FIRST, SECOND):
            assert cluster.markers(place) == [(is_commit, 0)]
            assert not cluster.log(place).admits_transaction(*producer[1:])
        assert cluster.coordinator.state_of() is (COMMITTED if is_commit else ABORTED)

    run(cluster, steps)


def test_a_decision_is_complete_only_when_the_other_leader_has_its_marker_on_the_disk(
    cluster: Cluster,
) -> None:
    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        cluster.peers.held = asyncio.Event()
        cluster.coordinator.end(producer)
        await settle()
        assert cluster.coordinator.state_of() is PREPARED

        cluster.peers.held.set()
        await settle()

        assert cluster.coordinator.state_of() is COMMITTED

    run(cluster, steps)


def test_markers_are_sent_again_until_the_leader_can_be_reached(cluster: Cluster) -> None:
    async def steps() -> None:
        producer = await cluster.begin(FIRST, SECOND)
        cluster.unreachable.add(LEADER)
        cluster.coordinator.end(producer)
        for _ in range(3):
            await cluster.retry()
        assert cluster.coordinator.state_of() is PREPARED
        assert cluster.markers(SECOND) == []

        cluster.unreachable.clear()
        await cluster.retry()

        assert cluster.coordinator.state_of() is COMMITTED
        assert cluster.markers(FIRST) == cluster.markers(SECOND) == [(True, 0)]

    run(cluster, steps)


def test_failed_markers_are_sent_soon_after_leaders_have_changed(cluster: Cluster) -> None:
    """At once, more or less, and then less and less often, if the new leader is not ready yet."""

    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        cluster.unreachable |= {LEADER, THIRD}
        cluster.coordinator.end(producer)
        await settle()
        cluster.coordinator.tick()
        cluster.move(SECOND, THIRD)
        cluster.leaders_changed()

        pauses = [limits.MARKER_RETRY_MS_MIN << each for each in range(3)]
        for pause_ms in pauses[:-1]:
            asked = len(cluster.peers.asked)
            cluster.coordinator.tick(pause_ms - 1)
            await settle()
            assert len(cluster.peers.asked) == asked
            cluster.coordinator.tick(1)
            await settle()
            assert len(cluster.peers.asked) == asked + 1
            cluster.coordinator.tick()
        cluster.unreachable.clear()
        cluster.coordinator.tick(pauses[-1])
        await settle()

        assert cluster.coordinator.state_of() is COMMITTED

    run(cluster, steps)


@pytest.mark.parametrize("to", [THIRD, COORDINATOR])
def test_markers_follow_the_leadership(cluster: Cluster, to: int) -> None:
    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        cluster.unreachable.add(LEADER)
        cluster.coordinator.end(producer)
        await settle()

        cluster.move(SECOND, to)
        await cluster.retry()

        assert cluster.markers(SECOND) == [(True, 0)]
        assert cluster.coordinator.state_of() is COMMITTED

    run(cluster, steps)


def test_a_leader_that_does_not_lead_any_more_refuses_markers(cluster: Cluster) -> None:
    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        cluster.brokers[LEADER].logs.clear()  # the image of the coordinator is behind

        cluster.coordinator.end(producer)
        await cluster.retry()

        assert cluster.coordinator.state_of() is PREPARED
        marker = Marker(*producer[1:], True, 0)
        refused = cluster.brokers[LEADER].transactions.write_marker(SECOND, marker)
        assert refused.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(cluster, steps)


def test_a_deleted_topic_needs_no_marker(cluster: Cluster) -> None:
    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        cluster.unreachable.add(LEADER)
        cluster.coordinator.end(producer)
        await settle()
        assert cluster.coordinator.state_of() is PREPARED

        del cluster.leaders[SECOND]
        await cluster.retry()

        assert cluster.coordinator.state_of() is COMMITTED

    run(cluster, steps)


def test_a_timeout_aborts_wherever_partitions_are_led(cluster: Cluster) -> None:
    async def steps() -> None:
        producer = await cluster.begin(FIRST, SECOND)

        cluster.coordinator.tick(60_000)
        await settle()

        assert cluster.markers(SECOND) == [(False, 0)]
        assert cluster.coordinator.state_of() is ABORTED
        assert await cluster.admit(producer, SECOND) is ErrorCode.INVALID_PRODUCER_EPOCH

    run(cluster, steps)


def test_a_new_instance_of_the_producer_fences_the_old_one_at_other_leaders(
    cluster: Cluster,
) -> None:
    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        transactions = cluster.coordinator.transactions
        refused = transactions.init(InitRequest("x", 60_000, 99)).result()
        assert refused.error is ErrorCode.CONCURRENT_TRANSACTIONS
        await settle()

        assert transactions.init(InitRequest("x", 60_000, 99)).result().error is NONE
        assert cluster.markers(SECOND) == [(False, 0)]
        assert not cluster.log(SECOND).send(*producer[1:])
        assert await cluster.admit(producer, SECOND) is ErrorCode.INVALID_PRODUCER_EPOCH

    run(cluster, steps)


# ---- coordinators that come and go ---------------------------------------------------------------


def change_coordinator(cluster: Cluster, to: int) -> Broker:
    """Let another broker lead the partition of `__transaction_state`; return the old one."""
    old = cluster.coordinator
    old.is_coordinator = False
    old.transactions.resign(0)
    cluster.coordinator_id = to
    new = cluster.coordinator
    new.state, new.is_coordinator, new.clock = old.state, True, old.clock
    new.state.leader_epoch += 1
    new.restart()
    new.recover()
    return old


def test_the_next_coordinator_completes_what_is_decided_with_its_own_epoch(
    cluster: Cluster,
) -> None:
    async def steps() -> None:
        producer = await cluster.begin(FIRST, SECOND)
        cluster.unreachable.add(LEADER)
        cluster.coordinator.end(producer)
        await settle()

        old = change_coordinator(cluster, THIRD)
        cluster.unreachable.clear()
        await cluster.retry()
        old.tick(limits.TRANSACTION_RETRY_MS)
        await settle()

        assert cluster.coordinator.state_of() is COMMITTED
        assert cluster.markers(FIRST) == [(True, 0), (True, 1)]
        assert cluster.markers(SECOND) == [(True, 1)]

    run(cluster, steps)


def test_the_next_coordinator_aborts_what_times_out(cluster: Cluster) -> None:
    async def steps() -> None:
        await cluster.begin(SECOND)
        change_coordinator(cluster, THIRD)
        assert cluster.coordinator.state_of() is ONGOING

        cluster.coordinator.tick(60_000)
        await settle()

        assert cluster.markers(SECOND) == [(False, 1)]

    run(cluster, steps)


def test_a_coordinator_that_has_resigned_writes_nothing_and_completes_nothing(
    cluster: Cluster,
) -> None:
    async def steps() -> None:
        producer = await cluster.begin(FIRST, SECOND)
        cluster.peers.held = asyncio.Event()
        cluster.coordinator.end(producer)  # the marker for SECOND is on its way
        await settle()
        old = cluster.coordinator
        old.is_coordinator = False
        old.transactions.resign(0)
        end = old.state.log_end_offset

        cluster.peers.held.set()
        await settle()
        old.tick(limits.TRANSACTION_RETRY_MS)
        await settle()

        assert old.state.log_end_offset == end
        refused = old.transactions.end(EndRequest(producer, True)).result()
        assert refused.error is ErrorCode.NOT_COORDINATOR

    run(cluster, steps)


@pytest.mark.parametrize("is_resigned", [True, False])
def test_who_waits_for_an_end_learns_whether_this_coordinator_has_completed_it(
    cluster: Cluster, is_resigned: bool
) -> None:
    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        cluster.peers.held = asyncio.Event()
        cluster.coordinator.end(producer)
        transactions = cluster.coordinator.transactions
        waiting = asyncio.ensure_future(transactions.wait_ended("x", 10_000))
        await settle()

        if is_resigned:
            cluster.coordinator.is_coordinator = False
            transactions.resign(0)
        cluster.peers.held.set()
        await settle()
        cluster.coordinator.tick(limits.CONCURRENT_TRANSACTION_WAIT_MS)

        assert await waiting is not is_resigned

    run(cluster, steps)


def test_an_answer_to_an_earlier_coordinatorship_completes_nothing(cluster: Cluster) -> None:
    """The broker coordinates again, and the producer is in another transaction."""

    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        cluster.peers.held = first = asyncio.Event()
        cluster.coordinator.end(producer)
        await settle()
        cluster.peers.held = None
        change_coordinator(cluster, THIRD)
        await settle()
        assert cluster.coordinator.state_of() is COMMITTED
        assert cluster.coordinator.add(producer, SECOND).result() is NONE
        assert await cluster.admit(producer, SECOND) is NONE
        cluster.unreachable.add(LEADER)
        cluster.coordinator.end(producer)
        await settle()

        third = cluster.coordinator
        third.is_coordinator = False
        third.transactions.resign(0)
        cluster.coordinator_id = COORDINATOR
        again = cluster.coordinator
        again.is_coordinator = True
        again.state.leader_epoch += 1
        again.transactions.expect([0])
        again.recover_logs()
        while again.transactions.shard(0) is None:
            again.tick()
        again.tick()
        await settle()
        assert again.state_of() is PREPARED
        late = iter([True])  # the answer of the first end; what follows it gets none
        cluster.peers.answer = lambda _, body: (
            written(body) if next(late, False) else Unreachable("no answer")
        )
        first.set()
        await settle()

        assert next(late, None) is None
        assert again.state_of() is PREPARED

    run(cluster, steps)


def test_markers_of_an_earlier_coordinator_are_fenced(cluster: Cluster) -> None:
    log = cluster.log(SECOND)
    log.epochs[7] = 3
    log.coordinator_epochs[7] = 5
    leader = cluster.brokers[LEADER].transactions

    def write(epoch: int) -> ErrorCode:
        return leader.write_marker(SECOND, Marker(7, 3, True, epoch)).result()

    assert write(4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.markers == []
    assert write(5) is NONE
    assert write(6) is NONE


def test_a_fenced_coordinator_goes_on_until_it_learns_that_it_is_none(cluster: Cluster) -> None:
    async def steps() -> None:
        producer = await cluster.begin(SECOND)
        cluster.log(SECOND).coordinator_epochs[producer.producer_id] = 1
        cluster.coordinator.end(producer)
        await cluster.retry()
        assert cluster.coordinator.state_of() is PREPARED
        assert cluster.markers(SECOND) == []
        asked = len(cluster.peers.asked)

        old = change_coordinator(cluster, THIRD)
        await settle()
        assert cluster.coordinator.state_of() is COMMITTED
        asked = len(cluster.peers.asked)
        for _ in range(3):
            old.tick(limits.TRANSACTION_RETRY_MS)
            await settle()

        assert len(cluster.peers.asked) == asked
        assert cluster.markers(SECOND) == [(True, 1)]

    run(cluster, steps)


def test_a_late_marker_does_not_end_the_next_transaction(cluster: Cluster) -> None:
    """With an epoch per transaction, the marker of one has the epoch of the next (KIP-1228)."""
    log = cluster.log(SECOND)
    leader = cluster.brokers[LEADER].transactions
    marker = Marker(7, 4, True, 0)
    log.admit_transaction(7, 3)
    assert log.send(7, 3)
    assert leader.write_marker(SECOND, marker, EPOCH_BUMP_VERSION).result() is NONE
    assert leader.write_marker(SECOND, marker, EPOCH_BUMP_VERSION).result() is NONE  # a retry
    log.admit_transaction(7, 4)
    assert log.send(7, 4)

    late = leader.write_marker(SECOND, marker, EPOCH_BUMP_VERSION).result()

    assert late is ErrorCode.INVALID_PRODUCER_EPOCH
    assert 7 in log.open_transactions
    assert leader.write_marker(SECOND, marker, 0).result() is NONE  # of an older producer


def test_a_leader_is_told_that_a_marker_has_the_epoch_of_the_next_transaction(
    cluster: Cluster,
) -> None:
    async def steps() -> None:
        producer = cluster.coordinator.init()
        assert await cluster.admit(producer, SECOND, adds=True) is NONE
        cluster.coordinator.transactions.end(EndRequest(producer, True, bumps_epoch=True))
        await settle()

        [marker] = cluster.peers.asked[-1][2]["markers"]
        assert marker["transaction_version"] == EPOCH_BUMP_VERSION
        assert marker["producer_epoch"] == producer.producer_epoch + 1

    run(cluster, steps)


def test_an_end_that_keeps_the_epoch_is_not_taken_for_a_late_one(cluster: Cluster) -> None:
    """A client may add partitions as a newer producer and end the transaction as an older one."""

    async def steps() -> None:
        producer = cluster.coordinator.init()
        assert await cluster.admit(producer, SECOND, adds=True) is NONE
        assert cluster.log(SECOND).send(*producer[1:])

        cluster.coordinator.end(producer)
        await settle()

        assert cluster.coordinator.state_of() is COMMITTED

    run(cluster, steps)


# ---- admission -----------------------------------------------------------------------------------


def test_a_leader_admits_what_the_coordinator_of_another_broker_confirms(
    cluster: Cluster,
) -> None:
    async def steps() -> None:
        producer = cluster.coordinator.init()
        assert await cluster.admit(producer, SECOND) is ErrorCode.INVALID_TXN_STATE
        assert not cluster.log(SECOND).send(*producer[1:])

        assert cluster.coordinator.add(producer, SECOND).result() is NONE
        assert await cluster.admit(producer, SECOND) is NONE

        assert cluster.log(SECOND).send(*producer[1:])

    run(cluster, steps)


def test_a_newer_producer_adds_partitions_of_other_leaders_by_writing(cluster: Cluster) -> None:
    async def steps() -> None:
        producer = cluster.coordinator.init()

        assert await cluster.admit(producer, SECOND, adds=True) is NONE

        assert cluster.coordinator.transactions.has(producer, SECOND)
        leader = cluster.brokers[LEADER].transactions
        assert leader.is_admitted(producer, SECOND)
        cluster.coordinator.end(producer)
        await settle()
        assert not leader.is_admitted(producer, SECOND)

    run(cluster, steps)


def test_a_leader_asks_the_coordinator_of_now(cluster: Cluster) -> None:
    async def steps() -> None:
        producer = await cluster.begin(FIRST)
        change_coordinator(cluster, THIRD)

        assert await cluster.admit(producer, SECOND, adds=True) is NONE

        assert cluster.peers.asked[-1][0] == THIRD

    run(cluster, steps)


# ---- hanging transactions ------------------------------------------------------------------------


def test_a_start_in_a_cluster_aborts_nothing(cluster: Cluster) -> None:
    """Another broker may coordinate a transaction that this one does not know."""

    async def steps() -> None:
        await cluster.begin(SECOND)
        leader = cluster.brokers[LEADER]

        leader.restart()
        leader.recover()
        leader.tick(limits.TRANSACTION_RETRY_MS)
        await settle()

        assert cluster.markers(SECOND) == []

    run(cluster, steps)


def test_offsets_of_groups_elsewhere_get_their_marker_from_that_broker(cluster: Cluster) -> None:
    async def steps() -> None:
        cluster.leaders[OFFSETS] = LEADER
        producer = cluster.coordinator.init()
        assert cluster.coordinator.add(producer, OFFSETS).result() is NONE
        ended: list[Any] = []
        answered: list[ErrorCode] = []

        def serve(broker_id: int, body: Any) -> Any:
            answer = cluster.serve(broker_id, body)
            [partition] = answer["markers"][0]["topics"][0]["partitions"]
            answered.append(code_of(partition["error_code"]))
            return answer

        def end(number: int, marker: Marker, answer: Callable[[ErrorCode], None]) -> None:
            ended.append((number, marker.is_committed))
            answer(NONE if len(ended) > 1 else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        leader = cluster.brokers[LEADER]
        leader.logs[OFFSETS] = ClientLog()
        leader.transactions._markers._end_in_groups = end
        cluster.brokers[COORDINATOR].has_offsets = False
        cluster.peers.answer = serve
        cluster.coordinator.end(producer)
        await settle()
        assert cluster.coordinator.state_of() is PREPARED  # the group coordinator was loading
        assert answered == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        await cluster.retry()

        assert ended == [(0, True), (0, True)]
        assert cluster.coordinator.state_of() is COMMITTED

    run(cluster, steps)

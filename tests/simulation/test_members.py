"""What members of the simulation may assume when responses can be lost."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from broker.codec.coordinator_records import encode_assignment
from broker.core.groups.commands.consumer import ConsumerHeartbeatResponse
from broker.core.groups.commands.offsets import FetchOffsetsResponse
from broker.model.errors import ErrorCode
from tests.simulation import consumer_members, members
from tests.simulation.broker import SESSION_MS
from tests.simulation.consumer_members import Claims, ConsumerMember
from tests.simulation.rolling_members import CooperativeMember
from tests.simulation.simulation import Simulation
from tests.simulation.virtual_time import Task, VirtualTime


class _Answers:
    """Replaces network and broker: the responses to heartbeats; None is a lost response."""

    def __init__(self, time: VirtualTime, answers: Iterable[Any]) -> None:
        self.requests: list[Any] = []
        self._time = time
        self._answers = iter(answers)

    def heartbeat(self, request: Any) -> Any:
        self.requests.append(request)
        return next(self._answers)

    consumer_group_heartbeat = heartbeat

    def fetch_offsets(self, _: Any) -> FetchOffsetsResponse:
        return FetchOffsetsResponse(ErrorCode.NONE)

    async def ask(self, request: Any, *, timeout_ms: int = 4_000, **_: Any) -> Any:
        answer = request(SimpleNamespace(groups=self))
        if answer is None:
            await self._time.sleep(timeout_ms)
        return answer


def _simulation(*answers: Any) -> Simulation:
    sim: Any = Simulation(0)
    sim.is_faulty = False
    sim.network = _Answers(sim.time, answers)
    return sim


def test_a_lost_response_may_have_asked_a_classic_member_to_rejoin() -> None:
    error = ErrorCode.REBALANCE_IN_PROGRESS
    sim = _simulation(ErrorCode.NONE, None, error)  # asked at 3,000, 6,000 and 13,000 ms
    member = CooperativeMember(sim, "g", "m", Claims())

    Task(member._poll(), sim.time.answer())
    sim.time.run_until(13_000)

    assert member.lease.end_ms == 3_000 + members.REBALANCE_MS < 13_000 + SESSION_MS


def test_a_lost_response_may_have_asked_a_consumer_member_to_revoke() -> None:
    def has(*numbers: int) -> ConsumerHeartbeatResponse:
        return ConsumerHeartbeatResponse(ErrorCode.NONE, "", "m", 1, 3_000, {b"t": numbers})

    # Asked at 0, 100, 3,100, 7,200 and 11,300 ms; the last response has everything.
    nothing_new = has(0, 1)._replace(assignment=None)
    sim = _simulation(has(0, 1), nothing_new, None, None, has(0))
    member = ConsumerMember(sim, "g", "m", Claims(), is_static=False)

    Task(member.process(), sim.time.answer())
    sim.time.run_until(11_300)

    assert member.lease.end_ms == 100 + consumer_members.REBALANCE_MS < 11_300 + SESSION_MS


def test_a_consumer_member_acknowledges_that_a_join_assigned_nothing() -> None:
    """The group may wait for it: the lost response to an earlier join assigned some partitions."""
    nothing = ConsumerHeartbeatResponse(ErrorCode.NONE, "", "m", 1, 3_000, {})
    sim = _simulation(nothing, nothing, nothing._replace(assignment=None))
    member = ConsumerMember(sim, "g", "m", Claims(), is_static=False)

    Task(member.process(), sim.time.answer())
    sim.time.run_until(4_000)

    sent = [(each.member_epoch, each.owned) for each in sim.network.requests]  # type: ignore[attr-defined]
    assert sent == [(0, {}), (1, {}), (1, None)]


def test_a_classic_member_fetches_the_committed_offset_of_a_partition_it_had_given_up() -> None:
    sim = _simulation()
    member = CooperativeMember(sim, "g", "m", Claims())
    member.assigned, member._commits.positions = {0, 1}, {0: 5, 1: 5}
    kept = {"assigned_partitions": [{"topic": "synced", "partitions": [0]}]}

    Task(member._take(encode_assignment(1, kept)), sim.time.answer())
    sim.time.run_until(1_000)

    assert member.assigned == {0}
    assert 1 not in member._commits.positions

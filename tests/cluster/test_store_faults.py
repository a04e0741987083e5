"""Faults of etcd, of what it stores, and of clocks, under the load of a client.

All drills share one etcd of three members, three brokers and one load (`loads`), whose history is
judged at the end of the module: whatever happens to the store, nothing acknowledged is lost.
"""

import signal
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from tests.cluster.loads import confluent_load
from tests.cluster.loads.client_load import PARTITIONS, SENT
from tests.cluster.loads.running import RunningLoad, running_load
from tests.compatibility.faults.loads import kafka as errors
from tests.conftest import TEST_SETTINGS
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.etcd import Etcd
from tests.support.stepping_clock import SteppingClock
from tests.support.wire_client import WireClient

MEMBERS = (0, 1, 2)
QUOTA_BYTES = 8 << 20
NONE, TOPIC_ALREADY_EXISTS, STORAGE_ERROR = 0, 36, 56
RETRIABLE = {*errors.RETRIABLE, STORAGE_ERROR}  # the outcome of a change may be unknown
# A lease survives two thirds of it less a second without etcd: enough for every worker of the load
# to have an answer on a busy machine.
SESSION_MS = 6_000
STEP_MS = 1_800_000  # producers whose clock is an hour ahead of the broker are refused
DAMAGED = {
    "topic/broken": b"{ no JSON",
    "topic/newer": b'{"version": 2, "shape": "unknown"}',
    "broker/9": b'{"version": 1}',
    "controller": b"[]",
}
pytestmark = [
    pytest.mark.slow("waits for the ends of leases, and for everybody after each fault"),
    pytest.mark.timeout(0),
]


class Drill(NamedTuple):
    """What the drills share."""

    cluster: ClusterProcess
    etcd: Etcd
    load: RunningLoad
    clock: SteppingClock


@pytest.fixture(scope="module")
def shared_drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """Three members, three brokers and a load, which all drills have survived in the end."""
    folder = tmp_path_factory.mktemp("drills")
    clock = SteppingClock(folder)
    etcd = Etcd(folder / "etcd", 3, options=["--quota-backend-bytes", str(QUOTA_BYTES)])
    settings = [*TEST_SETTINGS, f"broker.session.timeout.ms={SESSION_MS}"]
    cluster = ClusterProcess(folder / "cluster", settings=settings, etcd=etcd)
    make = partial(confluent_load.load, protocol="classic")
    try:
        for broker in cluster.brokers.values():
            broker.wrap = clock.shown_to
        cluster.start()
        with running_load(cluster, make, folder) as load:
            yield Drill(cluster, etcd, load, clock)
    finally:
        cluster.close()
        etcd.close()


@pytest.fixture
def drill(shared_drill: Drill) -> Iterator[Drill]:
    """Lend the cluster; in the end it creates topics, as a whole one does."""
    yield shared_drill
    shared_drill.cluster.wait_for_brokers([1, 2, 3])
    create(shared_drill, f"after-{len(topics(shared_drill))}")


def test_clients_go_on_while_etcd_is_silent_for_less_than_a_lease(drill: Drill) -> None:
    before = registrations(drill)

    with drill.load.fault("etcd is silent"):
        stop_etcd(drill)
        try:
            drill.load.wait_for_progress("while etcd is silent")
        finally:
            continue_etcd(drill)

    assert registrations(drill) == before


@pytest.mark.parametrize("name", ["silent", "without a majority"])
def test_brokers_refuse_after_their_leases_have_ended_and_resume_by_themselves(
    drill: Drill, name: str
) -> None:
    stop, go_on = {
        "silent": (stop_etcd, continue_etcd),
        "without a majority": (kill_majority, start_majority),
    }[name]
    expect(drill, "lease lost", "the metadata cannot be followed")
    before = registrations(drill)

    with drill.load.fault(f"etcd is {name}"):
        stop(drill)
        try:
            wait_until(lambda: not any_is_served(drill), "all brokers refuse")
        finally:
            go_on(drill)
        for broker_id, value in enumerate(before, 1):
            drill.cluster.wait_for_registration(broker_id, value)


def test_clients_go_on_while_the_leader_of_etcd_is_killed(drill: Drill) -> None:
    with drill.load.fault("the leader of etcd is killed"):
        leader = leader_of(drill.etcd)
        drill.etcd.kill(leader)
        try:
            drill.load.wait_for_progress("without a member of etcd")
            create(drill, "two-members")
        finally:
            drill.etcd.start(leader)
            drill.etcd.wait(leader)


def test_clients_go_on_while_all_of_etcd_is_restarted(drill: Drill) -> None:
    expect(drill, "lease lost", "the metadata cannot be followed")

    with drill.load.fault("etcd is restarted"):
        restart_etcd(drill)


def test_clients_go_on_while_etcd_has_no_space_and_changes_are_refused(drill: Drill) -> None:
    fill(drill)
    with drill.load.fault("etcd has no space"):
        try:
            drill.load.wait_for_progress("while etcd has no space")
            code = create_once(drill, "no-space")
        finally:
            make_space(drill.etcd)

    assert code in RETRIABLE
    assert "no-space" not in topics(drill)


def test_a_broker_that_slept_while_changes_were_compacted_reads_everything_again(
    drill: Drill,
) -> None:
    expect(drill, "lease lost", "the metadata cannot be followed")

    with drill.load.fault("broker 2 sleeps"):
        drill.cluster.pause(2)
        try:
            restart_etcd(drill)  # otherwise the change would wait for it in its connection
            create(drill, "while-2-slept")
            compact(drill.etcd)
        finally:
            drill.cluster.resume(2)
        wait_until(
            lambda: "while-2-slept" in drill.cluster.topics(2), "broker 2 sees the new topic"
        )

    assert "changes of the metadata were missed" in drill.cluster.brokers[2].stderr()


@pytest.mark.parametrize("key", DAMAGED)
def test_brokers_serve_on_while_the_store_has_a_value_that_they_cannot_read(
    drill: Drill, key: str
) -> None:
    expect(drill, "the metadata cannot be followed")
    etcd, whole_key = drill.etcd, f"{drill.cluster.prefix}/{key}"

    with drill.load.fault(f"{key} is damaged"):
        etcd.put(whole_key, DAMAGED[key])
        try:
            wait_until(
                lambda: all(f"{key}" in each.stderr() for each in drill.cluster.brokers.values()),
                "every broker names the key",
            )
            drill.load.wait_for_progress(f"while {key} is damaged")
        finally:
            etcd.delete(whole_key)


@pytest.mark.parametrize("step_ms", [STEP_MS, -STEP_MS])
def test_a_step_of_the_clocks_ends_no_lease(drill: Drill, step_ms: int) -> None:
    before = registrations(drill)

    with drill.load.fault("the clocks step"):
        drill.clock.set(step_ms)
        drill.load.wait_for_progress("after a step of the clocks")
        drill.clock.set(0)

    assert registrations(drill) == before


# ---- etcd
# -------------------------------------------------------------------------------------------------


def stop_etcd(drill: Drill) -> None:
    for each in MEMBERS:
        drill.etcd.send(each, signal.SIGSTOP)


def continue_etcd(drill: Drill) -> None:
    for each in MEMBERS:
        drill.etcd.send(each, signal.SIGCONT)
    for each in MEMBERS:
        drill.etcd.wait(each)


def kill_majority(drill: Drill) -> None:
    for each in MEMBERS[1:]:
        drill.etcd.kill(each)


def start_majority(drill: Drill) -> None:
    for each in MEMBERS[1:]:
        drill.etcd.start(each)
    for each in MEMBERS:
        drill.etcd.wait(each)


def restart_etcd(drill: Drill) -> None:
    for each in MEMBERS:
        drill.etcd.kill(each)
    for each in MEMBERS:
        drill.etcd.start(each)
    for each in MEMBERS:
        drill.etcd.wait(each)


def leader_of(etcd: Etcd) -> int:
    """Return the number of the member that leads."""
    [leader] = [each for each in MEMBERS if is_leader(etcd, each)]
    return leader


def is_leader(etcd: Etcd, number: int) -> bool:
    status = etcd.ask("maintenance/status", number)
    return bool(status["leader"] == status["header"]["member_id"])


def compact(etcd: Etcd) -> None:
    """Forget all changes up to now."""
    revision = etcd.ask("maintenance/status")["header"]["revision"]
    etcd.ask("kv/compaction", revision=revision, physical=True)


def fill(drill: Drill) -> None:
    """Write until there is no space."""
    for number in range(2 * QUOTA_BYTES >> 19):
        if not drill.etcd.has_put(f"filling/{number % 2}", bytes(1 << 19)):
            return
    raise AssertionError("etcd has taken more than its quota")


def make_space(etcd: Etcd) -> None:
    """Do what an operator does: compact, defragment each member, disarm the alarm."""
    for number in (0, 1):
        etcd.delete(f"filling/{number}")
    compact(etcd)
    for each in MEMBERS:
        etcd.ask("maintenance/defragment", each)
    for alarm in etcd.ask("maintenance/alarm", action="GET").get("alarms", []):
        etcd.ask(
            "maintenance/alarm", action="DEACTIVATE", memberID=alarm["memberID"], alarm="NOSPACE"
        )


# ---- brokers
# -------------------------------------------------------------------------------------------------


def registrations(drill: Drill) -> list[bytes | None]:
    """Return what the store has of each broker; another value for each lease."""
    return [drill.cluster.registration(each) for each in drill.cluster.brokers]


def topics(drill: Drill) -> set[str]:
    """Return the topics that a broker knows."""
    return set(drill.cluster.topics(1))


def create(drill: Drill, topic: str) -> None:
    """Create a topic; try again after each error that is worth it."""

    def is_created() -> bool:
        code = create_once(drill, topic)
        assert code in {NONE, TOPIC_ALREADY_EXISTS, *RETRIABLE}, code
        return code in {NONE, TOPIC_ALREADY_EXISTS}

    wait_until(is_created, f"{topic} is created")


def create_once(drill: Drill, topic: str) -> int:
    """Ask broker 1, whoever is the controller, to create a topic; return the error code."""
    wanted = {"name": topic, "num_partitions": 3, "replication_factor": 1}
    body = {"topics": [wanted], "timeout_ms": 10_000}
    with WireClient(drill.cluster.brokers[1].address) as client:
        [answer] = client.request("CreateTopics", 5, body)["topics"]
    code: int = answer["error_code"]
    return code


def expect(drill: Drill, *complaints: str) -> None:
    """Let the brokers log these errors."""
    for each in drill.cluster.brokers.values():
        each.expected_complaints += complaints


def any_is_served(drill: Drill) -> bool:
    """Return whether a broker answers for a partition as its leader."""
    return any(
        drill.cluster.serves(broker_id, SENT, partition)
        for broker_id in drill.cluster.brokers
        for partition in range(PARTITIONS)
    )

"""10,000 partitions on three brokers: creation, memory, Metadata, start, and changes of leaders.

The partitions are created twice: in topics of ten, placed by the cluster, and in topics that are on
one broker. That broker is killed: the controller writes 10,000 states without a leader. It is
started again: the controller writes 10,000 states with one. The last topic in the image is asked
for often, because Metadata of everything costs more than the work that is measured; everything is
asked for when the last one is done.
"""

import time
from pathlib import Path
from statistics import median

from benchmarks.cluster.brokers import METADATA_VERSION, Cluster, new_topic, topic_on, until
from benchmarks.end_to_end import machine
from benchmarks.end_to_end.trials import Facts, Programs
from broker import codec

BROKERS = 3
PARTITIONS = 10_000
PARTITIONS_PER_TOPIC = 10
ON_ONE, LAST = "on-one", "on-one-last"
WITNESS, VICTIM = 1, 3
SERVED_PAUSE_SECONDS = 0.2  # to ask for 10,000 offsets takes the broker 60 ms
REQUESTS = 10


def measure(_programs: Programs, folder: Path, scale: float) -> Facts:
    """Return seconds, milliseconds of processor time, and KB per partition in each broker."""
    count = int(PARTITIONS * scale)
    found: Facts = {"wrong": 0.0}
    with Cluster(folder / "cluster", BROKERS) as cluster:
        empty = _memory(cluster)
        since = time.monotonic()
        topics = range(count // PARTITIONS_PER_TOPIC)
        cluster.create(
            WITNESS, [new_topic(f"topic-{each:05}", PARTITIONS_PER_TOPIC) for each in topics]
        )
        found["create_s"] = until(lambda: _are_led(cluster, count), 0.05) - since
        found["memory_kb"] = (_memory(cluster) - empty) / BROKERS / count / 1e3
        found["metadata_ms"] = _metadata_ms(cluster)
        found["start_s"] = _start_s(cluster)
        found |= _change_leaders(cluster, count)
    return found


def _memory(cluster: Cluster) -> int:
    return sum(machine.memory(each.pid).rss_anon for each in cluster.brokers.values())


def _are_led(cluster: Cluster, count: int) -> bool:
    """Return whether every broker shows so many partitions with a leader."""
    return all(
        sum(shown["leader_id"] >= 0 for shown in cluster.partitions(each, None)) == count
        for each in cluster.clients
    )


def _metadata_ms(cluster: Cluster) -> float:
    """Return the processor time of a Metadata of everything that is not cached."""
    broker, client = cluster.brokers[WITNESS], cluster.clients[WITNESS]
    body = {"topics": None, "allow_auto_topic_creation": False}
    request = codec.request_frame("Metadata", METADATA_VERSION, body, correlation_id=1)
    used = []
    for number in range(REQUESTS):
        cluster.create(WITNESS, [new_topic(f"change-{number}", 1)])  # the cached one is too old
        time.sleep(0.05)
        before = machine.process_seconds(broker.pid)
        client.send(request)
        client.receive()
        used.append(machine.process_seconds(broker.pid) - before)
    return median(used) * 1e3


def _start_s(cluster: Cluster) -> float:
    """Stop a broker and start it again; return the seconds until all that it led is served."""
    led: dict[str, list[int]] = {}
    for topic in cluster.metadata(WITNESS, None)["topics"]:
        for partition in topic["partitions"]:
            if partition["leader_id"] == VICTIM:
                led.setdefault(topic["name"], []).append(partition["partition_index"])
    cluster.end(VICTIM, is_planned=True)
    cluster.brokers[VICTIM].process.wait()
    since = cluster.start(VICTIM)
    return until(lambda: _are_served(cluster, led), SERVED_PAUSE_SECONDS) - since


def _are_served(cluster: Cluster, partitions: dict[str, list[int]]) -> bool:
    """Return whether the restarted broker answers for all these partitions."""
    body = {
        "replica_id": -1,
        "topics": [
            {
                "name": name,
                "partitions": [{"partition_index": each, "timestamp": -1} for each in numbers],
            }
            for name, numbers in partitions.items()
        ],
    }
    answer = cluster.clients[VICTIM].ask("ListOffsets", 1, body)
    return not any(
        partition["error_code"] for topic in answer["topics"] for partition in topic["partitions"]
    )


def _change_leaders(cluster: Cluster, count: int) -> Facts:
    """Kill the broker that leads all of two topics, and start it again."""
    many = count - PARTITIONS_PER_TOPIC
    cluster.create(WITNESS, [topic_on(ON_ONE, many, VICTIM)])
    cluster.create(WITNESS, [topic_on(LAST, PARTITIONS_PER_TOPIC, VICTIM)])

    def epochs(topic: str) -> set[int]:
        return {each["leader_epoch"] for each in cluster.partitions(WITNESS, [topic])}

    def have(epoch: int) -> float:
        until(lambda: epochs(LAST) == {epoch}, 0.01)
        return until(lambda: epochs(ON_ONE) == {epoch}, 0.05)

    all_of_both = {ON_ONE: list(range(many)), LAST: list(range(PARTITIONS_PER_TOPIC))}
    until(lambda: _are_served(cluster, all_of_both), SERVED_PAUSE_SECONDS)
    controller = cluster.brokers[cluster.controller(WITNESS)]
    cluster.end(VICTIM)
    missed = until(lambda: VICTIM not in cluster.registered(WITNESS))
    before = machine.process_seconds(controller.pid)
    unled_s = have(1) - missed
    used = machine.process_seconds(controller.pid) - before
    cluster.start(VICTIM)
    registered = until(lambda: VICTIM in cluster.registered(WITNESS))
    led_s = have(2) - registered
    served = until(lambda: _are_served(cluster, all_of_both), SERVED_PAUSE_SECONDS)
    return {
        "unled_s": unled_s,
        "controller_ms": used * 1e3,
        "led_s": led_s,
        "served_s": served - registered,
    }

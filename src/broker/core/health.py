"""Whether this broker is ready, and what is wrong with its cluster as far as it knows.

The parts that know something set it here; nothing is asked of a disk or of another broker. What is
found by looking at all partitions is looked for in steps, once for each revision of what is known,
and for each change of topics' configurations.
"""

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.core.cluster.records import NO_LEADER
from broker.core.cluster_view import ClusterView
from broker.core.maintenance.disk_space import FREE_IT, Level
from broker.core.scheduling.steps import StepBudget
from broker.core.topics.topics import Topics
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP

if TYPE_CHECKING:
    from broker.core.broker import Broker

_EXAMPLES_MAX: Final = 20


class Stage(Enum):
    """Where a process is between its start and its end."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class Membership(Enum):
    """What a broker is in its cluster."""

    ALONE = "alone"
    JOINING = "joining"
    JOINED = "joined"
    FENCED = "fenced"
    LEAVING = "leaving"


class Reason(NamedTuple):
    """Why something is not well.

    Attributes:
        reason: a name that does not change.
        hint: what to do.
        total: how many of them there are.
        examples: the first of them; they are told only to who may describe the cluster.
    """

    reason: str
    hint: str
    total: int = 1
    examples: tuple[str, ...] = ()

    def fields(self, *, has_examples: bool) -> Mapping[str, object]:
        """Return what is told of it."""
        told: dict[str, object] = {"reason": self.reason, "count": self.total, "hint": self.hint}
        if has_examples and self.examples:
            told["examples"] = self.examples
        return told


_STARTING: Final = Reason("starting", "wait until the broker listens")
_STOPPING: Final = Reason("stopping", "the broker was asked to stop: use another one")
_LOADING: Final = Reason("logs_loading", "wait: after a kill, logs are recovered first")
_MEMBERSHIP: Final[Mapping[Membership, Reason]] = {
    Membership.JOINING: Reason(
        "not_registered",
        "wait; if it stays so, look for lines about the registration and the metadata store",
    ),
    Membership.FENCED: Reason(
        "fenced", "its lease was not renewed in time: check the metadata store and the network"
    ),
    Membership.LEAVING: Reason("draining", "other brokers take over: use another one"),
}
_STORE: Final = Reason(
    "metadata_store_unreachable",
    "check the metadata store and the network to it: without it a broker is fenced",
)
_DAMAGED: Final = (
    "some records of these partitions are not served: docs/operations.md (Damaged records) says"
    " how to go on"
)
_DIRECTORIES: Final = "mount or repair their disks, then restart the broker"
_NO_CONTROLLER: Final = Reason("no_controller", "wait; if it stays so, check the metadata store")
_OF_PARTITIONS: Final = (
    (
        "offline_partitions",
        "they have no leader: start the brokers of their replicas, or look for failed logs",
    ),
    (
        "under_min_isr_partitions",
        "writes with acks=all are refused: start the brokers of their replicas",
    ),
    (
        "under_replicated_partitions",
        "a replica is behind or its broker is away: start it, or look at the disks and the network",
    ),
)


class Health:
    """What the parts of a broker tell of themselves."""

    __slots__ = (
        "damaged",
        "disk_free_bytes",
        "disk_level",
        "is_store_reachable",
        "membership",
        "stage",
        "was_ready",
    )

    def __init__(self) -> None:
        """Begin as a standalone broker that starts."""
        self.stage = Stage.STARTING
        # Both are replaced for a member of a cluster.
        self.membership: Callable[[], Membership] = lambda: Membership.ALONE
        self.is_store_reachable: Callable[[], bool] = lambda: True
        self.damaged: Callable[[], list[str]] = list  # logs with records that are refused
        self.disk_level = Level.NORMAL
        self.disk_free_bytes = 0
        self.was_ready = False  # all reasons not to be were gone once

    def not_ready(self, *, is_loading: bool) -> list[Reason]:
        """Return why clients should not use this broker now; nothing if they may."""
        found = []
        if self.stage is Stage.STARTING:
            found.append(_STARTING)
        elif self.stage is Stage.STOPPING:
            found.append(_STOPPING)
        if is_loading:
            found.append(_LOADING)
        reason = _MEMBERSHIP.get(self.membership())
        if reason is not None:
            found.append(reason)
        self.was_ready = self.was_ready or not found
        return found

    def of_node(self) -> list[Reason]:
        """Return what is wrong with this broker itself and with its way to the store."""
        found = []
        if self.disk_level > Level.NORMAL:
            found.append(Reason(f"disk_{self.disk_level.name.lower()}", FREE_IT))
        if damaged := self.damaged():
            examples = tuple(damaged[:_EXAMPLES_MAX])
            found.append(Reason("damaged_records", _DAMAGED, len(damaged), examples))
        if not self.is_store_reachable():
            found.append(_STORE)
        return found


async def of_cluster(broker: "Broker") -> list[Reason]:
    """Return everything that is wrong, as far as this broker knows."""

    async def make() -> bytes:
        return json.dumps(await _of_partitions(broker.topics, broker.cluster)).encode()

    found = [
        *broker.health.not_ready(is_loading=broker.topics.is_loading),
        *broker.health.of_node(),
    ]
    if lost := broker.directories.lost:
        examples = tuple(map(str, lost[:_EXAMPLES_MAX]))
        found.append(Reason("lost_directories", _DIRECTORIES, len(lost), examples))
    if broker.cluster.controller_id == NO_LEADER:
        found.append(_NO_CONTROLLER)
    key = "health", broker.topics.config_changes  # as of min.insync.replicas
    known: list[list[Any]] = json.loads(await broker.response_cache.get(key, make))
    found += [
        Reason(*texts, count, tuple(examples))
        for texts, (count, examples) in zip(_OF_PARTITIONS, known, strict=True)
        if count
    ]
    return found


async def _of_partitions(topics: Topics, cluster: ClusterView) -> list[tuple[int, list[str]]]:
    """Count the partitions of each kind of _OF_PARTITIONS, with examples."""
    counts = [0] * len(_OF_PARTITIONS)
    examples: list[list[str]] = [[] for _ in _OF_PARTITIONS]
    budget = StepBudget(CLUSTER_PARTITIONS_PER_STEP)
    for topic in topics.from_name(""):
        min_isr = topic.config.integer("min.insync.replicas")
        for partition in range(topic.partition_count):
            leadership = cluster.leadership(topic, partition)
            wanted, in_sync = leadership.wanted, len(leadership.isr)
            is_of = (
                leadership.leader == NO_LEADER,
                in_sync < min(min_isr, wanted),
                in_sync < wanted,
            )
            for place, is_so in enumerate(is_of):
                if is_so:
                    counts[place] += 1
                    if len(examples[place]) < _EXAMPLES_MAX:
                        examples[place].append(f"{topic.name}-{partition}")
            await budget.spend(1)
    return list(zip(counts, examples, strict=True))

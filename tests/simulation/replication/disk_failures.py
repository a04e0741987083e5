"""One of the disks of a broker fails while it runs: its logs are offline, the others serve.

some ms later the broker starts again, and the disk
is there    with everything that it had
is missing  for a while: what it has is offline, until a later process finds it
is another  and empty, if other members of the ISR have everything that is committed

Which partitions a disk has is another choice at each failure. The draws are its own, so that a
history without such failures is the same as before there were any.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.core.cluster.writes import Item
from tests.simulation.draws import Draws

if TYPE_CHECKING:
    from tests.simulation.replication.broker import ReplicatedBroker
    from tests.simulation.replication.run import ReplicationSimulation

FIRST_MS = 2_000
RATE = 0.25  # of histories with failures


class DiskFailures:
    """The failures of disks in one history."""

    def __init__(self, sim: "ReplicationSimulation", seed: int) -> None:
        """Draw whether there are any; they begin with `begin`."""
        self._sim = sim
        self._rng = Draws(seed + 1)
        self.are_drawn = self._rng.random() < RATE

    def begin(self) -> None:
        """Let disks fail, once there is a topic."""
        self._sim.time.after(FIRST_MS, self._fail)

    def _fail(self) -> None:
        sim, rng = self._sim, self._rng
        if not sim.is_faulty:
            return
        sim.time.after(rng.randrange(300, 4_000), self._fail)
        running = [each for each in sim.brokers if each.process.is_running and each.logs]
        if running:
            broker = rng.choice(running)
            items = sorted(broker.logs)
            items = items if rng.random() < 0.5 else [rng.choice(items)]
            broker.process.run(partial(broker.fail, items))
            delay_ms = rng.choice((300, 2_000, 5_000))
            sim.time.after(delay_ms, partial(self._repair, broker, items))

    def _repair(self, broker: "ReplicatedBroker", items: Sequence[Item]) -> None:
        sim, rng, storage = self._sim, self._rng, broker.storage
        if not (sim.is_faulty and broker.process.is_alive and storage.failed):
            return
        what = rng.choice(("is there", "is missing", "is another"))
        sim.note(f"--- the disk of {items} {what}: {broker.name}")
        if what == "is another":
            sim.replace_disk(broker, items)
            return
        if what == "is missing":
            storage.missing = set(items)
            sim.time.after(rng.choice((1_000, 4_000)), partial(self._bring_back, broker.broker_id))
        sim.replace(broker, "kill" if sim.is_os else rng.choice(("kill", "power cut")))

    def _bring_back(self, broker_id: int) -> None:
        storage, broker = self._sim.storages[broker_id], self._sim.broker(broker_id)
        storage.missing.clear()
        if broker is not None and self._sim.is_faulty and storage.failed:
            self._sim.replace(broker)

"""One simulation: a broker, its clients, their network and disks, all drawn from one seed."""

from collections import deque
from random import Random

from tests.simulation.ages import Ages
from tests.simulation.audit import Audit
from tests.simulation.broker import SimulatedBroker
from tests.simulation.clock import CORRECTIONS_MS, ERRORS_MS, OFF_MS
from tests.simulation.leases import Lease
from tests.simulation.logs import Disk
from tests.simulation.network import Network
from tests.simulation.virtual_time import VirtualTime

EVENTS_KEPT = 100
LOAD_MS = 3_000  # after a start, or a fault of the disk


class Simulation:
    """The state that clients share."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.time = VirtualTime()
        self.disk = Disk(self.rng, self.time)
        self.broker = SimulatedBroker(self.rng, self.time, self.disk)
        self.network = Network(self.rng, self.time, self.broker)
        self.is_faulty = True  # clients may crash, pause, leave
        self.events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self.broker.create_topic("synced", 2)
        self.broker.create_topic("cached", 2, is_os=True)
        self.machine = self.broker.machine
        self.audit = Audit(self.time, self.broker.logs, Ages(self.time, self.machine, self.disk))
        self._ids = 0

    def happens(self, rate: float) -> bool:
        """Return whether a client's fault occurs now."""
        return self.is_faulty and self.rng.random() < rate

    def fresh_number(self) -> int:
        """Return an unused number."""
        self._ids += 1
        return self._ids

    def note(self, event: str) -> None:
        """Record an event, for the analysis of a violation."""
        self.events.append(f"{self.time.now_ms:>7} {event}")

    @property
    def loaded_ms(self) -> int:
        """When the groups' last load has certainly ended."""
        return max(self.audit.ages.started_ms, self.disk.last_fault_ms) + LOAD_MS

    def check_thrown_out(self, name: str, lease: Lease) -> None:
        """Note that a member's group does not know it any more."""
        lease.check_over(name, self.time.now_ms, self.loaded_ms)

    # ---- faults of the broker
    # -----------------------------------------------------------------------

    async def trouble(self) -> None:
        """Kill and restart the broker, cut its power and break its disks, until faults end."""
        rng = self.rng
        while self.is_faulty:
            await self.time.sleep(rng.randrange(2_000, 15_000))
            if not self.is_faulty:
                break
            kind = rng.choice(("kill", "power cut", "failing appends", "breaking disk", "flood"))
            self.note(f"--- {kind}")
            if kind in ("kill", "power cut"):
                await self.restart(is_power_cut=kind == "power cut")
            elif kind == "failing appends":
                self.disk.fail_rate = rng.choice((0.05, 0.3, 1.0))
                await self.time.sleep(rng.randrange(100, 3_000))
                self.disk.fail_rate = 0.0
            elif kind == "breaking disk":
                self.disk.break_rate = 0.1
                await self.time.sleep(rng.randrange(100, 2_000))
                self.disk.break_rate = 0.0
            else:
                self.network.repeat_rate = 0.5
                await self.time.sleep(rng.randrange(1_000, 6_000))
                self.network.repeat_rate = 0.1
            if self.broker.has_failed:
                await self.time.sleep(rng.randrange(3_000))
                await self.restart(is_power_cut=rng.random() < 0.5)

    async def restart(self, *, is_power_cut: bool) -> None:
        """Let the broker die and restart, unless it is down already."""
        if not self.broker.is_up:
            return
        lost = self.broker.crash(is_power_cut=is_power_cut)
        dropped = {place: len(entries) for place, entries in lost.items() if entries}
        self.note(f"broker died, lost {dropped}")
        self.audit.crashed(lost)
        await self.time.sleep(self.rng.randrange(50, 2_000))
        if is_power_cut:
            self.machine.reboot(self.rng.choice(OFF_MS))
        self.broker.start()
        self.note("broker started")
        self.audit.last_disturbance_ms = self.audit.ages.started_ms = self.time.now_ms

    async def wander(self) -> None:
        """Step the machine's wall clock, and let it return, or an operator confirm it."""
        rng, machine = self.rng, self.machine
        while self.is_faulty:
            await self.time.sleep(rng.randrange(5_000))
            end = rng.choice(("returns", "returns", "is right", "was announced"))
            error_ms = rng.choice(CORRECTIONS_MS if end == "is right" else ERRORS_MS)
            if end == "was announced":  # which is ignored: the clock has not shown it
                await self.confirm(machine.wall_ms() + error_ms)
                await self._confirmation_is_kept()
            machine.step(error_ms)
            self.note(f"--- the wall clock steps by {error_ms} ms, and {end}")
            await self.time.sleep(rng.randrange(500, 2_500))
            if self.broker.is_up:
                self.broker.clock_keeper.alter_another_setting()
            if self.happens(0.3):
                await self.restart(is_power_cut=rng.random() < 0.5)
            await self.time.sleep(rng.randrange(500, 6_000))
            if end == "is right":
                machine.correct()
                await self.confirm(machine.wall_ms())
            else:
                machine.step(0)
                self.note("--- the wall clock returns")
                if rng.random() < 0.3:
                    await self.confirm(machine.wall_ms())

    async def confirm(self, wall_ms: int) -> None:
        """Let the operator confirm the wall clock's time in advance."""
        while not self.broker.is_up:
            await self.time.sleep(100)
        self.broker.clock_keeper.confirm(wall_ms)
        self.note(f"--- confirmed {wall_ms}, {wall_ms - self.machine.true_ms():+} ms")

    async def _confirmation_is_kept(self) -> None:
        """Until then it cannot be distinguished from a confirmation after a step."""
        keeper = self.broker.clock_keeper
        for _ in range(200):
            if keeper.kept is not None and keeper.kept.confirmed_ms == keeper.confirmed_ms:
                break
            await self.time.sleep(100)

    async def watch(self) -> None:
        """Check what must not take too long; an offline log is noticed at once."""
        while True:
            await self.time.sleep(500)
            if self.broker.has_failed or not self.broker.is_up:
                self.audit.last_disturbance_ms = self.time.now_ms
                self.broker.look()
            self.audit.last_disturbance_ms = max(
                self.audit.last_disturbance_ms, self.disk.last_fault_ms
            )
            self.audit.check_time()

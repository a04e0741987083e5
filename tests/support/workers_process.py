"""`broker start --workers N` as a child process, with what clients see of it."""

from collections.abc import Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.ports import HOST, free_port

PARTITIONS = 4
TIMEOUT_S = 60.0


class Workers(BrokerProcess):
    """A supervisor and its workers, with what clients see of them."""

    def __init__(self, folder: Path, *, settings: Sequence[str] = ()) -> None:
        """Prepare two workers with short leases."""
        own = ["broker.session.timeout.ms=2000", "group.initial.rebalance.delay.ms=0", *settings]
        super().__init__(folder, settings=own, listen=f"{HOST}:{free_port(3)}")
        self.count = 2

    def command(self) -> list[str]:
        """Return the command line."""
        return [*super().command(), "--workers", str(self.count)]

    def start(self) -> None:
        """Start all, and wait for their banner."""
        self.start_loading()

    @property
    def config(self) -> dict[str, str | int | float | bool]:
        """What a client needs."""
        return {"bootstrap.servers": self.listen}

    def pids(self) -> list[int]:
        """Return the processes of the workers."""
        supervisor = self.process.pid
        found = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        return [int(each) for each in found]

    def pid_of(self, node_id: int) -> int:
        """Return the process of a worker, by the port on which it listens."""
        port = int(self.listen.rpartition(":")[2]) + node_id
        return next(each for each in self.pids() if port in listening_ports(each))

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition; -1 without one."""
        found = AdminClient(self.config).list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        return {number: each.leader for number, each in found.partitions.items()}

    def registered(self) -> set[int]:
        """Return the ids of the workers that clients know."""
        return {*AdminClient(self.config).list_topics(timeout=TIMEOUT_S).brokers}

    def until_led_by(self, topic: str, *node_ids: int) -> None:
        """Wait until exactly these workers lead the partitions of a topic."""
        wanted = set(node_ids)
        wait_until(lambda: {*self.leaders(topic).values()} == wanted, f"leaders {wanted}")

    def create(self, topic: str) -> None:
        """Create a topic and wait for its leaders."""
        admin = AdminClient(self.config)
        made = admin.create_topics([NewTopic(topic, PARTITIONS)])
        made[topic].result(TIMEOUT_S)


def listening_ports(pid: int) -> set[int]:
    """Return the ports on which a process listens."""
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(fd.readlink()))
        except FileNotFoundError:
            continue
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    listen = "0A"  # include/net/tcp_states.h
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == listen and f"socket:[{row[9]}]" in inodes
    }

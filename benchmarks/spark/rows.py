"""What a row of the benchmark is, and what all of them have at hand."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.end_to_end.targets import HOST, Target
from broker.model.address import Address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS: Final = 8
OURS, KAFKA = "polylog", "kafka"  # the formats; brokers have the same names
TUNED: Final = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}

Job = Callable[[], float | None]  # the seconds that count, None: all that it took


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        name: of the line.
        records: how many rows, or triggers, a run has.
        ready: makes the job, outside of the measure; what it has left behind goes at the end.
        broker: whose processor time counts.
        is_per_trigger: whether records are triggers.
    """

    name: str
    records: int
    ready: Callable[[], AbstractContextManager[Job]]
    broker: str = OURS
    is_per_trigger: bool = False


@dataclass(frozen=True)
class Place:
    """Where rows run.

    Attributes:
        spark: the session that all of them share.
        folder: of files that they make.
        brokers: that are running, ours and maybe Kafka's.
        records: how many there are in each topic, which are the same in all brokers.
        has_stock: whether the session has Spark's own Kafka connector.
    """

    spark: "SparkSession"
    folder: Path
    brokers: Mapping[str, Target]
    records: Mapping[str, int]
    has_stock: bool

    def address(self, broker: str) -> Address:
        """Return where a broker listens."""
        return Address(HOST, self.brokers[broker].port)

    def options(self, broker: str) -> dict[str, str]:
        """Return the option that says so."""
        return {"kafka.bootstrap.servers": str(self.address(broker))}


def simple(job: Callable[[], object]) -> Callable[[], AbstractContextManager[Job]]:
    """Return what makes a job ready that needs nothing and leaves nothing behind."""

    def run() -> None:
        job()

    @contextmanager
    def ready() -> Iterator[Job]:
        yield run

    return ready

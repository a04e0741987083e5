"""The rows of the benchmark, and the environment that they share."""

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

Job = Callable[[], float | None]  # the seconds to count, None: all of its time


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        name: of the line.
        records: the number of rows, or triggers, of a run.
        ready: prepares the job outside of the measured time, and cleans up at the end.
        broker: the broker whose processor time is measured.
        is_per_trigger: whether records are triggers.
    """

    name: str
    records: int
    ready: Callable[[], AbstractContextManager[Job]]
    broker: str = OURS
    is_per_trigger: bool = False


@dataclass(frozen=True)
class Environment:
    """The environment of the rows.

    Attributes:
        spark: the session of all rows.
        folder: for their files.
        brokers: the running brokers, ours and perhaps Kafka.
        records: the number of records by topic, equal in all brokers.
        has_stock: whether the session has Spark's own Kafka connector.
    """

    spark: "SparkSession"
    folder: Path
    brokers: Mapping[str, Target]
    records: Mapping[str, int]
    has_stock: bool

    def address(self, broker: str) -> Address:
        """Return the address of a broker."""
        return Address(HOST, self.brokers[broker].port)

    def options(self, broker: str) -> dict[str, str]:
        """Return the options with the address of a broker."""
        return {"kafka.bootstrap.servers": str(self.address(broker))}


def simple(job: Callable[[], object]) -> Callable[[], AbstractContextManager[Job]]:
    """Return `ready` for a job that needs no preparation and no cleanup."""

    def run() -> None:
        job()

    @contextmanager
    def ready() -> Iterator[Job]:
        yield run

    return ready

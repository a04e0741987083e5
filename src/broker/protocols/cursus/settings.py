"""Keys of topics that only Cursus has: options of its CREATE for which Kafka has no key."""

from typing import Final

from broker.model.settings import Kind, Setting

IDEMPOTENT: Final = "polylog.cursus.idempotent"
PARTITIONER: Final = "polylog.cursus.partitioner"
HASH_KEY: Final = "hash_key"
PARTITIONERS: Final = (HASH_KEY, "round_robin")

# fmt: off
TOPIC_SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(IDEMPOTENT, Kind.BOOLEAN, False,
            doc="Whether records written through Cursus are checked for duplicates and gaps, by"
                " their producer's name and sequence."),
    Setting(PARTITIONER, Kind.STRING, HASH_KEY, choices=PARTITIONERS,
            doc="Where Cursus's PUBLISH puts a record that names no partition."),
)
# fmt: on

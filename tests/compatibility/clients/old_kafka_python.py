"""An old kafka-python writes, reads, commits and lists offsets, in its own process.

    PYTHONPATH=FOLDER python old_kafka_python.py ADDRESS TOPIC COUNT API_VERSION

FOLDER has the release, COUNT records are in partition 0 already, API_VERSION is the broker version
that the client is told. It prints one JSON object, which the test compares.
"""

import json
import sys
import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

CODECS = ["none", "gzip", "snappy", "lz4"]
EACH = 5
LIMIT_S = 100.0


class OldClient:
    """A client of one release, told that the broker is of another."""

    def __init__(self, address: str, topic: str, version: tuple[int, ...]) -> None:
        """Store the options of every client."""
        self.options: dict[str, Any] = {"bootstrap_servers": address, "api_version": version}
        self.topic = topic
        self.place = TopicPartition(topic, 0)

    def write(self, codec: str) -> list[int]:
        """Write records that share a set, and return their offsets."""
        producer = KafkaProducer(
            **self.options,
            acks="all",
            linger_ms=100,
            compression_type=None if codec == "none" else codec,
        )
        sent = [
            producer.send(self.topic, f"old-{codec}-{place}".encode(), b"key", partition=0)
            for place in range(EACH)
        ]
        offsets = [each.get(LIMIT_S).offset for each in sent]
        producer.close()
        return offsets

    def read(self, count: int, group: str | None = None, **more: Any) -> list[str]:
        """Read that many records, from the start or from the group's offset."""
        consumer = KafkaConsumer(
            **self.options, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, **more,
        )  # fmt: skip
        if group is None:
            consumer.assign([self.place])
        else:
            consumer.subscribe([self.topic])
        values: list[str] = []
        deadline = time.monotonic() + LIMIT_S
        while len(values) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=100).values():
                values += [record.value.decode() for record in records]
        if group is not None:
            consumer.commit()
        consumer.close(autocommit=False)
        return values

    def ends(self) -> list[int]:
        """Return where partition 0 begins and ends."""
        consumer = KafkaConsumer(**self.options)
        consumer.assign([self.place])
        consumer.seek_to_beginning(self.place)
        start = consumer.position(self.place)
        consumer.seek_to_end(self.place)
        end = consumer.position(self.place)
        consumer.close()
        return [start, end]

    def facts(self, before: int) -> dict[str, Any]:
        """Do everything and return the results."""
        everything = before + len(CODECS) * EACH
        group = f"group-of-{self.topic}"
        return {
            "found": self.read(before),
            "wrote": {codec: self.write(codec) for codec in CODECS},
            "ends": self.ends(),
            "read": self.read(everything),
            "in small pieces": len(self.read(everything, max_partition_fetch_bytes=600)),
            "group": len(self.read(everything, group)),
            "wrote more": self.write("none"),
            "resumed": self.read(EACH, group),
        }


if __name__ == "__main__":
    address, topic, before, version = sys.argv[1:]
    client = OldClient(address, topic, tuple(map(int, version.split("."))))
    print(json.dumps(client.facts(int(before))))

"""Shows that an installed package works: starts its broker, produces a record and consumes it.

    python first_message.py

It needs nothing but the package, in the environment of the interpreter that runs it.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from broker import codec
from broker.client.admin import create_topic
from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster
from broker.client.produce import Producer
from broker.client.transactions import new_producer_id
from broker.model.address import parse_addresses

TOPIC = "greetings"
VALUE = b"hello"
STOP_SECONDS = 30


def main() -> int:
    """Return 0 if the record that was produced is the one that was consumed."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["start", "--data-dir", str(Path(folder, "data")), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(  # noqa: S603 - the broker of this environment
            [sys.executable, "-m", "broker", *command], stdout=subprocess.PIPE, text=True
        )
        try:
            found = _consumed(_address(process))
        finally:
            process.terminate()
            code = process.wait(STOP_SECONDS)
    print(f"python {sys.version.split()[0]}: consumed {found!r}, the broker ended with {code}")
    return 0 if (found, code) == (VALUE, 0) else 1


def _address(process: "subprocess.Popen[str]") -> str:
    """Return the address in the first line that a broker prints."""
    if process.stdout is None:
        raise AssertionError
    line = process.stdout.readline()
    found = re.search(r"127\.0\.0\.1:\d+", line)
    if found is None:
        raise SystemExit(f"the broker has not started: {line!r}")
    return found[0]


def _consumed(address: str) -> bytes | None:
    cluster = Cluster(parse_addresses(address))
    create_topic(cluster, TOPIC, 1)
    producer = Producer(cluster, new_producer_id(cluster))
    producer.send({(TOPIC, 0): producer.encode((TOPIC, 0), [(None, VALUE)])})
    topic = cluster.existing_topics()[TOPIC]
    for chunk in fetch(cluster, Range(TOPIC, topic.topic_id, 0, 0, 1)):
        for record in codec.records(chunk.data):
            return record.value
    return None


if __name__ == "__main__":
    sys.exit(main())

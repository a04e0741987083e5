"""A distributed worker of Kafka Connect in its own process, driven through its REST address.

It keeps all its state in the broker: three compacted topics and a group of type `connect`.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.compatibility.java.long_process import LongProcess
from tests.compatibility.java.tools import JavaTools
from tests.support.broker_process import Broker, wait_until
from tests.support.ports import HOST, free_port

WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
# The worker serves once it has read its three topics to the end.
START_TIMEOUT_S = 180.0
REST_TIMEOUT_S = 60.0
RETRY_CODES = {404, 409, 500, 503}  # starting, rebalancing, not the leader yet


class ConnectWorker(LongProcess):
    """The worker, and its connectors by their names."""

    def __init__(
        self, folder: Path, java: JavaTools, broker: Broker, name: str, **more: str
    ) -> None:
        """Describe a worker of the cluster called `name`; entering it starts it."""
        self._rest = f"http://{HOST}:{free_port()}"
        self.topics = [f"{name}-{what}" for what in ("configs", "offsets", "status")]
        self.group = f"{name}-group"
        settings = {
            "bootstrap.servers": broker.address,
            "group.id": self.group,
            "listeners": self._rest,
            "config.storage.topic": self.topics[0],
            "offset.storage.topic": self.topics[1],
            "status.storage.topic": self.topics[2],
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "5",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "500",
            "heartbeat.interval.ms": "300",
            "session.timeout.ms": "3000",  # a killed worker is noticed soon
            "scheduled.rebalance.max.delay.ms": "0",
            "plugin.discovery": "service_load",
        } | {key.replace("_", "."): value for key, value in more.items()}
        file = folder / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        super().__init__(java.command(WORKER, str(file)), folder / "worker.log")

    def __enter__(self) -> Self:
        """Start it, and wait until it can be asked for its connectors."""
        self.start()
        wait_until(self._serves, f"{self.group} serves", START_TIMEOUT_S)
        return self

    def start(self) -> None:
        """Start it."""
        super().__enter__()

    def serves_or_has_ended(self) -> bool:
        """Return whether its start is over, whichever way."""
        return self.has_ended() or self._ask("GET", "/connectors") is not None

    def configure(self, name: str, **config: str) -> None:
        """Create or change a connector, unless the worker ends."""
        body = {key.replace("_", "."): value for key, value in config.items()}
        body |= {"tasks.max": "1"}
        wait_until(
            lambda: (
                self.has_ended() or self._ask("PUT", f"/connectors/{name}/config", body) is not None
            ),
            f"{name} is configured",
            REST_TIMEOUT_S,
        )

    def is_running(self, name: str) -> bool:
        """Return whether a connector and its one task run."""
        status = self._ask("GET", f"/connectors/{name}/status")
        return status is not None and [
            part["state"] for part in (status["connector"], *status["tasks"])
        ] == ["RUNNING", "RUNNING"]

    def _serves(self) -> bool:
        return self.is_alive() and self._ask("GET", "/connectors") is not None

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the response, or None while there is none."""
        request = urllib.request.Request(  # noqa: S310 - loopback
            self._rest + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=REST_TIMEOUT_S) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in RETRY_CODES:
                raise AssertionError(error.read().decode()) from error
            return None
        except (urllib.error.URLError, ConnectionError, TimeoutError):  # or it ends
            return None

"""MirrorMaker 2 in its own process, as connect-mirror-maker.sh runs it: from cluster to cluster.

It keeps its state at the target, and in a topic of the source which offsets correspond.
"""

import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.compatibility.java.tools import JavaTools
from tests.support.broker_process import Broker

MIRROR = "org.apache.kafka.connect.mirror.MirrorMaker"
STOP_TIMEOUT_S = 60.0
# Topics of one replica; everything that is done now and then is done each second.
SETTINGS = """\
clusters = source, target
source.bootstrap.servers = {source}
target.bootstrap.servers = {target}
source->target.enabled = true
source->target.topics = {topics}
source->target.groups = {groups}
target->source.enabled = false
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
sync.group.offsets.enabled = true
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
emit.heartbeats.interval.seconds = 1
target.offset.flush.interval.ms = 500
target.scheduled.rebalance.max.delay.ms = 0
target.plugin.discovery = service_load
listeners = http://127.0.0.1:0
"""


class MirrorMaker:
    """The process."""

    def __init__(
        self,
        folder: Path,
        java: JavaTools,
        source: Broker,
        target: Broker,
        topics: str,
        groups: str,
    ) -> None:
        """Describe a mirror of these topics and groups; entering it starts it."""
        file = folder / "mm2.properties"
        addresses = {"source": source.address, "target": target.address}
        file.write_text(SETTINGS.format(topics=topics, groups=groups, **addresses))
        self._command = java.command(MIRROR, str(file), "--clusters", "target")
        self._log = folder / "mm2.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it with SIGTERM, as an init system does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        finally:
            self._process.kill()

    def is_alive(self) -> bool:
        """Whether it runs; what it logged if it does not."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-5_000:]
        return True

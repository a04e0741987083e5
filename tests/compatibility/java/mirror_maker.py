"""MirrorMaker 2 in its own process, as connect-mirror-maker.sh runs it: from cluster to cluster.

It keeps its state at the target, and in a topic of the source which offsets correspond.
"""

from pathlib import Path

from tests.compatibility.java.long_process import LongProcess
from tests.compatibility.java.tools import JavaTools
from tests.support.broker_process import Broker

MIRROR = "org.apache.kafka.connect.mirror.MirrorMaker"
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


class MirrorMaker(LongProcess):
    """The process."""

    def __init__(
        self,
        folder: Path,
        java: JavaTools,
        source: Broker,
        target: Broker,
        topics: str,
        groups: str,
        more: str = "",
    ) -> None:
        """Describe a mirror of these topics and groups, with more settings; entering it starts."""
        file = folder / "mm2.properties"
        addresses = {"source": source.address, "target": target.address}
        file.write_text(SETTINGS.format(topics=topics, groups=groups, **addresses) + more)
        super().__init__(
            java.command(MIRROR, str(file), "--clusters", "target"), folder / "mm2.log"
        )

"""The table of all settings: name, type, default, range, description.

The names are Kafka's (broker configs of Kafka 4.x) and, under `polylog.`, our own. Topic keys are
derived from the same rows: a row's `topic` is the topic key whose broker-wide value it is, `scale`
converts its unit to the key's, and the order of rows with the same key is Kafka's precedence
(`log.retention.ms` before `.minutes` before `.hours`).

A row with `is_dynamic` may be altered while the broker runs, durably (KIP-226), and so may the
first row of each topic key; every other row is read at the start only, even if Kafka 4.3 can alter
it.

`applies=False` marks a setting that is accepted, checked, stored and described because tools read
and write it, but that has no effect yet; its description says so, and a start that sets it logs a
warning.
"""

from collections.abc import Iterable
from typing import NamedTuple

from broker.model import limits, otlp_limits
from broker.model.compressions import COMPRESSIONS, GZIP, LZ4, ZSTD
from broker.model.listener import PREFIX
from broker.model.security_settings import SECURITY_SETTINGS
from broker.model.setting import (
    DAY_MS,
    HOUR_MS,
    INT16_MAX,
    INT_MAX,
    LONG_MAX,
    MINUTE_MS,
    Kind,
    Setting,
    Value,
)

__all__ = ["INT_MAX", "LONG_MAX", "Kind", "Setting", "Value"]  # of setting.py, for who reads them

COMPRESSION_TYPES = (
    "uncompressed",
    *(compression.name for compression in reversed(COMPRESSIONS[1:])),
    "producer",
)
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

# Formatted by hand, so that rows stay short.
# fmt: off
_NETWORK = (
    Setting("node.id", Kind.INT, 1, minimum=0,
            doc="Id of this broker in its cluster."),
    Setting("broker.rack", Kind.STRING, None,
            doc="Rack of this broker, as clients see it."),
    Setting("socket.request.max.bytes", Kind.INT, limits.FRAME_BYTES_MAX, minimum=64 * limits.KIB,
            unit="bytes",
            kafka_default="104857600",
            doc="Largest request frame; at least message.max.bytes and 1 MiB. Kafka's"
                " default is 100 MiB; frames are held whole here."),
    Setting("max.connections", Kind.INT, limits.CONNECTIONS_MAX, minimum=1, maximum=1_000_000,
            is_capped=True, is_dynamic=True, is_per_listener=True, is_dynamic_per_listener=True,
            kafka_default="2147483647",
            doc="Connections at the same time; above it a new one is closed at once. Of the"
                " broker, and with a listener's prefix of that listener."),
    Setting("connections.max.idle.ms", Kind.LONG, limits.CONNECTION_IDLE_MS, minimum=-1, unit="ms",
            doc="A connection without requests is closed after this time; -1: never."),
    Setting("fetch.max.bytes", Kind.INT, limits.FETCH_BYTES_MAX, minimum=1024,
            maximum=limits.REPLY_QUEUE_BYTES_PER_CONNECTION, is_capped=True, unit="bytes",
            doc="Most bytes of records in one fetch response."),
    Setting("max.incremental.fetch.session.cache.slots", Kind.INT, limits.FETCH_SESSIONS_MAX,
            minimum=0, maximum=100_000, is_capped=True,
            doc="Fetch sessions kept (KIP-227); 0 turns them off."),
)

_CLUSTER = (
    Setting("polylog.workers", Kind.INT, 1, minimum=1, maximum=limits.WORKERS_MAX,
            doc="Brokers on this host that share the data directory, with ids from node.id on. The"
                " listeners are of all; each has a port of its own after that of the first"
                " listener."),
    Setting("polylog.metadata.store", Kind.STRING, "sqlite",
            doc="Where topics and settings are stored. sqlite: a file of the data directory, for"
                " one broker or the workers of one host. etcd://HOST:PORT,HOST:PORT/PREFIX: the"
                " cluster of all brokers with the same etcd and prefix."),
    Setting("polylog.metadata.user", Kind.STRING, None,
            doc="User of etcd; its password is the content of polylog.metadata.password.file."),
    Setting("polylog.metadata.password.file", Kind.STRING, None,
            doc="File with the password of polylog.metadata.user."),
    Setting("polylog.metadata.tls.ca.file", Kind.STRING, None,
            doc="File with the certificates (PEM) that sign etcd's; set: etcd is called with TLS."),
    Setting("polylog.metadata.tls.certificate.file", Kind.STRING, None,
            doc="File with the certificate and key (PEM) of this broker for etcd."),
    Setting("broker.session.timeout.ms", Kind.INT, 3_000, minimum=2_000, maximum=60_000, unit="ms",
            kafka_default="9000",
            doc="How long a broker of a cluster may be silent before others take over what it"
                " leads. It stops serving that a second earlier. Kafka's default is 9000; the time"
                " until another broker leads is up to twice this where etcd elects meanwhile."),
    Setting("polylog.early.fencing.enable", Kind.BOOLEAN, True,
            doc="Whether the leaderships of a broker whose host refuses connections move at once,"
                " before its session ends: its process has died."),
    Setting("controlled.shutdown.enable", Kind.BOOLEAN, True,
            doc="Whether a broker of a cluster moves what it leads to others before it stops."),
    Setting("auto.leader.rebalance.enable", Kind.BOOLEAN, True,
            doc="Whether leaders are moved back to the first of their partitions' replicas."),
    Setting("leader.imbalance.check.interval.seconds", Kind.LONG, 300, minimum=1, unit="seconds",
            doc="How often the leaders of the cluster are checked for that."),
    Setting("leader.imbalance.per.broker.percentage", Kind.INT, 10, minimum=0, maximum=100,
            doc="Share of a broker's partitions that others may lead before they are moved back."),
    Setting("replica.lag.time.max.ms", Kind.LONG, 30_000, minimum=1, unit="ms",
            doc="A follower that has not had all records of its leader for this time is not in sync"
                " any more: acks=all does not wait for it."),
    Setting("replica.selector.class", Kind.STRING, "", choices=("", RACK_AWARE),
            doc="From which replica consumers read. Empty: the leader. RackAwareReplicaSelector:"
                " one in sync in the rack that the consumer tells (client.rack), if there is one."),
    Setting("replica.fetch.wait.max.ms", Kind.INT, 500, minimum=1, unit="ms",
            doc="How long a leader may wait for records before it answers a follower; at most"
                " replica.lag.time.max.ms."),
    Setting("replica.fetch.min.bytes", Kind.INT, 1, minimum=1, unit="bytes",
            doc="Bytes of records for which a leader answers a follower earlier."),
    Setting("replica.fetch.max.bytes", Kind.INT, limits.MIB, minimum=1, unit="bytes",
            doc="Bytes of records of one partition in an answer to a follower; a larger batch is"
                " sent alone."),
    Setting("replica.fetch.response.max.bytes", Kind.INT, 10 * limits.MIB, minimum=1,
            maximum=64 * limits.MIB, unit="bytes",
            doc="Bytes of records in an answer to a follower."),
    Setting("replica.socket.timeout.ms", Kind.INT, 30_000, minimum=1_000, unit="ms",
            doc="After how long without a byte of an answer a replica connects anew; the wait of"
                " replica.fetch.wait.max.ms comes in addition."),
    Setting("leader.replication.throttled.rate", Kind.LONG, LONG_MAX, minimum=0, is_dynamic=True,
            unit="bytes",
            doc="Bytes per second that followers which are not in sync may copy from a broker's"
                " throttled leaders."),
    Setting("follower.replication.throttled.rate", Kind.LONG, LONG_MAX, minimum=0, is_dynamic=True,
            unit="bytes",
            doc="Bytes per second that a broker's throttled followers may copy while they are"
                " behind."),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", Kind.LONG, LONG_MAX, minimum=0,
            is_dynamic=True, unit="bytes",
            doc="Bytes per second that are copied of partitions that move to another of several"
                " log.dirs."),
)

_TOPICS = (
    Setting("num.partitions", Kind.INT, 1, minimum=1, maximum=limits.PARTITIONS_PER_TOPIC_MAX,
            doc="Partitions of a topic that is created without a number."),
    Setting("default.replication.factor", Kind.INT, 1, minimum=1, maximum=INT16_MAX,
            doc="Replicas of a topic that is created without a number, in a cluster of brokers that"
                " each have a data directory."),
    Setting("auto.create.topics.enable", Kind.BOOLEAN, True,
            doc="Whether asking for an unknown topic creates it."),
    Setting("delete.topic.enable", Kind.BOOLEAN, True,
            doc="Whether topics may be deleted."),
    Setting("min.insync.replicas", Kind.INT, 1, minimum=1, topic="min.insync.replicas",
            doc="Replicas that must have a record before acks=all is answered, or all of them if"
                " a partition has fewer."),
    Setting("unclean.leader.election.enable", Kind.BOOLEAN, False,
            topic="unclean.leader.election.enable",
            doc="Whether a replica that may lack acknowledged records leads when no other can: they"
                " are lost then."),
)

_LOGS = (
    Setting("log.dirs", Kind.STRING, "data",
            doc="The data directory; created when it does not exist. Others have partitions only."),
    Setting("polylog.durability", Kind.STRING, "group-commit", choices=("group-commit", "os"),
            topic="polylog.durability",
            doc="group-commit: every ack other than 0 waits for a shared fdatasync. os: ack"
                " after the page cache has the records, as Kafka does by default."),
    Setting("message.max.bytes", Kind.INT, limits.MESSAGE_BYTES_MAX, minimum=0, maximum=1 << 30,
            unit="bytes", topic="max.message.bytes",
            doc="Largest record batch, in bytes on the wire."),
    # Kafka 4 refuses less than 1 MiB; small segments are how tests and small disks roll often.
    Setting("log.segment.bytes", Kind.INT, 1 << 30, minimum=1024, maximum=limits.SEGMENT_BYTES_MAX,
            unit="bytes", topic="segment.bytes",
            doc="Size at which a segment is closed and the next one begun."),
    Setting("log.roll.ms", Kind.LONG, None, minimum=1, unit="ms", topic="segment.ms",
            doc="Age at which a segment is closed even if it is not full."),
    Setting("log.roll.hours", Kind.INT, 168, minimum=1, unit="hours", topic="segment.ms",
            scale=HOUR_MS,
            doc="As log.roll.ms, which takes precedence."),
    Setting("log.roll.jitter.ms", Kind.LONG, None, minimum=0, unit="ms", topic="segment.jitter.ms",
            doc="Random reduction of segment.ms up to this, so that logs do not roll"
                " together."),
    Setting("log.roll.jitter.hours", Kind.INT, 0, minimum=0, unit="hours",
            topic="segment.jitter.ms", scale=HOUR_MS,
            doc="As log.roll.jitter.ms, which takes precedence."),
    Setting("log.index.interval.bytes", Kind.INT, limits.INDEX_INTERVAL_BYTES, minimum=0,
            unit="bytes", topic="index.interval.bytes",
            doc="Bytes of log between two index entries."),
    Setting("log.index.size.max.bytes", Kind.INT, limits.INDEX_BYTES_MAX, minimum=4, unit="bytes",
            topic="segment.index.bytes",
            doc="Largest index of a segment; a full index closes its segment."),
    Setting("log.preallocate", Kind.BOOLEAN, False, topic="preallocate",
            doc="Whether a segment's file is preallocated whole; here its tail is, in steps."),
    Setting("log.flush.interval.messages", Kind.LONG, LONG_MAX, minimum=1, topic="flush.messages",
            doc="1 means polylog.durability=group-commit; under os, records until a sync begins."),
    Setting("log.flush.interval.ms", Kind.LONG, None, minimum=0, unit="ms", topic="flush.ms",
            doc="Under os, age at which records are synced."),
    Setting("log.flush.scheduler.interval.ms", Kind.LONG, LONG_MAX, minimum=0, unit="ms",
            topic="flush.ms",
            doc="As log.flush.interval.ms, which takes precedence."),
    Setting("compression.type", Kind.STRING, "producer", choices=COMPRESSION_TYPES,
            topic="compression.type",
            doc="Compression of stored batches; producer: as sent. A batch that has the codec"
                " already stays as it is."),
    Setting("compression.gzip.level", Kind.INT, GZIP.level_default,
            minimum=GZIP.level_default, maximum=GZIP.level_max,
            topic="compression.gzip.level",
            doc="Level when the broker compresses with gzip; -1: its default."),
    Setting("compression.lz4.level", Kind.INT, LZ4.level_default,
            minimum=LZ4.level_min, maximum=LZ4.level_max,
            topic="compression.lz4.level",
            doc="Level when the broker compresses with lz4."),
    Setting("compression.zstd.level", Kind.INT, ZSTD.level_default,
            minimum=ZSTD.level_min, maximum=ZSTD.level_max,
            topic="compression.zstd.level",
            doc="Level when the broker compresses with zstd."),
    Setting("log.message.timestamp.type", Kind.STRING, "CreateTime", topic="message.timestamp.type",
            choices=("CreateTime", "LogAppendTime"),
            doc="Whether a record has its producer's timestamp or the time of the append."),
    Setting("log.message.timestamp.before.max.ms", Kind.LONG, LONG_MAX, minimum=0, unit="ms",
            topic="message.timestamp.before.max.ms",
            doc="How far a record's timestamp may be before the broker's time."),
    Setting("log.message.timestamp.after.max.ms", Kind.LONG, HOUR_MS, minimum=0, unit="ms",
            topic="message.timestamp.after.max.ms",
            doc="How far a record's timestamp may be after the broker's time."),
    Setting("log.message.downconversion.enable", Kind.BOOLEAN, True,
            topic="message.downconversion.enable", applies=False,
            doc="Whether old clients get old message formats; a no-op since Kafka 4.0."),
)

_RETENTION = (
    Setting("log.cleanup.policy", Kind.LIST, ("delete",), choices=("delete", "compact"),
            topic="cleanup.policy",
            doc="What happens to old segments: deleted, compacted, both, or nothing (empty)."),
    Setting("log.retention.ms", Kind.LONG, None, minimum=-1, unit="ms", topic="retention.ms",
            doc="Age at which records may be deleted; -1: never."),
    Setting("log.retention.minutes", Kind.INT, None, minimum=-1, unit="minutes",
            topic="retention.ms", scale=MINUTE_MS,
            doc="As log.retention.ms, which takes precedence."),
    Setting("log.retention.hours", Kind.INT, 168, minimum=-1, unit="hours", topic="retention.ms",
            scale=HOUR_MS,
            doc="As log.retention.ms and log.retention.minutes, which take precedence."),
    Setting("log.retention.bytes", Kind.LONG, -1, minimum=-1, unit="bytes", topic="retention.bytes",
            doc="Size of a partition above which old segments are deleted; -1: no limit."),
    Setting("log.retention.check.interval.ms", Kind.LONG, 300_000, minimum=1, unit="ms",
            doc="How often retention checks for expired segments."),
    Setting("log.local.retention.ms", Kind.LONG, -2, minimum=-2, unit="ms",
            topic="local.retention.ms", applies=False,
            doc="With tiered storage, the age kept on this disk; -2: as retention.ms."),
    Setting("log.local.retention.bytes", Kind.LONG, -2, minimum=-2, unit="bytes",
            topic="local.retention.bytes", applies=False,
            doc="With tiered storage, the size kept on this disk; -2: as retention.bytes."),
    Setting("log.segment.delete.delay.ms", Kind.LONG, 60_000, minimum=0, unit="ms",
            topic="file.delete.delay.ms",
            doc="Time between removing a segment from its log and from the disk."),
    Setting("log.cleaner.delete.retention.ms", Kind.LONG, DAY_MS, minimum=0, unit="ms",
            topic="delete.retention.ms",
            doc="How long a compacted log keeps tombstones for readers to see."),
    Setting("log.cleaner.min.compaction.lag.ms", Kind.LONG, 0, minimum=0, unit="ms",
            topic="min.compaction.lag.ms",
            doc="Records younger than this are not compacted."),
    Setting("log.cleaner.max.compaction.lag.ms", Kind.LONG, LONG_MAX, minimum=1, unit="ms",
            topic="max.compaction.lag.ms",
            doc="Records older than this are compacted even from a mostly clean log."),
    Setting("log.cleaner.min.cleanable.ratio", Kind.DOUBLE, 0.5, minimum=0.0, maximum=1.0,
            topic="min.cleanable.dirty.ratio",
            doc="Share of a log that is not compacted yet at which compaction is due."),
)

_COORDINATORS = (
    Setting("offsets.topic.num.partitions", Kind.INT, 50, minimum=1,
            maximum=limits.PARTITIONS_PER_TOPIC_MAX,
            doc="Partitions of __consumer_offsets; fixed once that topic exists."),
    Setting("offsets.topic.replication.factor", Kind.INT, 3, minimum=1, maximum=INT16_MAX,
            doc="Replicas of __consumer_offsets, or as many as there are brokers; with more"
                " brokers it gets more."),
    Setting("offsets.retention.minutes", Kind.INT, 7 * 24 * 60, minimum=1, unit="minutes",
            doc="How long a group without members keeps its offsets."),
    Setting("offset.metadata.max.bytes", Kind.INT, limits.OFFSET_METADATA_BYTES_MAX, minimum=0,
            maximum=limits.OFFSET_METADATA_BYTES_MAX, is_capped=True, unit="bytes",
            doc="Longest text stored with a committed offset."),
    # Kafka waits 3 s for more first members, which saves a rebalance when a fleet starts at once
    # and costs all others 3 s at each first join: tests, notebooks, single services.
    Setting("group.initial.rebalance.delay.ms", Kind.INT, 0, minimum=0, maximum=300_000, unit="ms",
            kafka_default="3000",
            doc="How long an empty group waits for more members after its first."),
    # Kafka's default floor is 6 s. Users ask for 1 to 6 s to have partitions taken over sooner,
    # and a heartbeat costs this broker microseconds; below 1 s a pause of a client's garbage
    # collector already looks like a failure.
    Setting("group.min.session.timeout.ms", Kind.INT, 1_000, minimum=1_000, maximum=1_800_000,
            unit="ms",
            kafka_default="6000",
            doc="Shortest session timeout a member may ask for."),
    Setting("group.max.session.timeout.ms", Kind.INT, 1_800_000, minimum=1_000, maximum=1_800_000,
            unit="ms",
            doc="Longest session timeout a member may ask for."),
    Setting("group.max.size", Kind.INT, limits.MEMBERS_PER_GROUP_MAX, minimum=1,
            maximum=limits.MEMBERS_PER_GROUP_MAX, is_capped=True,
            kafka_default="2147483647",
            doc="Most members of one group."),
    Setting("group.consumer.session.timeout.ms", Kind.INT, 45_000, minimum=1, unit="ms",
            group="consumer.session.timeout.ms",
            doc="Time without a heartbeat after which a member of a consumer group is gone."),
    Setting("group.consumer.min.session.timeout.ms", Kind.INT, 45_000, minimum=1, unit="ms",
            doc="Shortest session timeout that a consumer group may be given."),
    Setting("group.consumer.max.session.timeout.ms", Kind.INT, 60_000, minimum=1, unit="ms",
            doc="Longest session timeout that a consumer group may be given."),
    Setting("group.consumer.heartbeat.interval.ms", Kind.INT, 5_000, minimum=1, unit="ms",
            group="consumer.heartbeat.interval.ms",
            doc="How often members of consumer groups have to send a heartbeat."),
    Setting("group.consumer.min.heartbeat.interval.ms", Kind.INT, 5_000, minimum=1, unit="ms",
            doc="Shortest heartbeat interval that a consumer group may be given."),
    Setting("group.consumer.max.heartbeat.interval.ms", Kind.INT, 15_000, minimum=1, unit="ms",
            doc="Longest heartbeat interval that a consumer group may be given."),
    Setting("group.consumer.max.size", Kind.INT, limits.MEMBERS_PER_GROUP_MAX, minimum=1,
            maximum=limits.MEMBERS_PER_GROUP_MAX, is_capped=True,
            kafka_default="2147483647",
            doc="Most members of one consumer group."),
    Setting("group.consumer.assignors", Kind.LIST, ("uniform", "range"),
            choices=("uniform", "range"),
            doc="Assignors of consumer groups; the first is for members that name none."),
    Setting("group.consumer.migration.policy", Kind.STRING, "bidirectional",
            choices=("disabled", "upgrade", "downgrade", "bidirectional"),
            doc="Which groups change between the classic and the consumer protocol while members"
                " are live."),
    Setting("producer.id.expiration.ms", Kind.INT, DAY_MS, minimum=1, unit="ms",
            doc="How long an idle producer id is remembered by a partition."),
    Setting("transaction.max.timeout.ms", Kind.INT, 900_000, minimum=1, unit="ms",
            doc="Longest transaction timeout a producer may ask for."),
    Setting("transactional.id.expiration.ms", Kind.INT, 7 * DAY_MS, minimum=1, unit="ms",
            doc="How long an unused transactional id is remembered."),
    Setting("transaction.state.log.num.partitions", Kind.INT, 50, minimum=1,
            maximum=limits.PARTITIONS_PER_TOPIC_MAX,
            doc="Partitions of __transaction_state; fixed once that topic exists."),
    Setting("transaction.state.log.replication.factor", Kind.INT, 3, minimum=1, maximum=INT16_MAX,
            doc="Replicas of __transaction_state, or as many as there are brokers; with more"
                " brokers it gets more."),
    Setting("transaction.state.log.min.isr", Kind.INT, 2, minimum=1,
            doc="min.insync.replicas of __transaction_state, when it is created."),
)

_PROCESS = (
    Setting("polylog.insecure", Kind.BOOLEAN, False,
            doc="Whether to listen on addresses that other machines reach, without"
                " authentication."),
    Setting("polylog.internal.topics.writable", Kind.BOOLEAN, False,
            doc="Whether a client that calls itself __admin_client may Produce to internal topics,"
                " as in Apache Kafka. Its records there are replayed by the coordinators."),
    Setting("polylog.clock.confirmed.ms", Kind.LONG, 0, minimum=0, unit="ms",
            is_dynamic=True,
            doc="A correct wall time, since 1970, that the clock has shown since it stepped:"
                " deletion by age continues. It does not confirm later steps."),
    Setting("polylog.log.level", Kind.STRING, "info", choices=("debug", "info", "warning", "error"),
            doc="Least severe event that is logged."),
    Setting("polylog.log.format", Kind.STRING, "text", choices=("text", "logfmt", "json"),
            doc="How a line of the log is written: for people, as key=value, or as a JSON object."),
    Setting("polylog.stall.seconds", Kind.INT, 10, minimum=0, maximum=3_600,
            doc="The stacks of all threads are written to stderr when nothing has been served for"
                " so long; 0: never."),
)

_OTLP = (
    Setting("polylog.otlp.endpoint", Kind.STRING, None,
            doc="Where metrics are pushed by OTLP over HTTP, such as"
                " http://localhost:4318/v1/metrics; needs the extra polylog-broker[otlp]."),
    Setting("polylog.otlp.headers", Kind.PASSWORD, None,
            doc="Headers of these requests, NAME=VALUE,NAME=VALUE; such as Authorization."),
    Setting("polylog.otlp.interval.ms", Kind.INT, MINUTE_MS, unit="ms",
            minimum=otlp_limits.OTLP_INTERVAL_MS_MIN,
            doc="How often metrics are pushed."),
    Setting("polylog.otlp.timeout.ms", Kind.INT, 10_000, minimum=100, unit="ms",
            doc="How long a push may take, with its repetitions."),
    Setting("polylog.otlp.topics", Kind.BOOLEAN, False,
            doc="Whether metrics of topics, partitions and groups are pushed, too: those of"
                " /metrics/all."),
)

_CLEANER = (
    Setting("log.cleaner.enable", Kind.BOOLEAN, True,
            doc="Whether topics with cleanup.policy=compact are compacted."),
    Setting("log.cleaner.backoff.ms", Kind.LONG, 15_000, minimum=1, unit="ms",
            is_dynamic=True,
            doc="How long the cleaner waits when no log is due."),
    Setting("log.cleaner.dedupe.buffer.size", Kind.LONG, limits.COMPACTION_MAP_BYTES,
            minimum=limits.COMPACTION_MAP_BYTES_MIN, maximum=limits.COMPACTION_MAP_BYTES_MAX,
            is_capped=True, unit="bytes",
            is_dynamic=True,
            doc="Memory for keys, 24 bytes each; a log with more is compacted in several passes."),
    Setting("log.cleaner.threads", Kind.INT, 1, minimum=1, maximum=1, applies=False,
            is_capped=True, is_dynamic=True,
            doc="How many logs are compacted at a time: one, in a process of its own."),
)

_SCRUB = (
    Setting("polylog.scrub.interval.ms", Kind.LONG, 7 * DAY_MS, minimum=-1, unit="ms",
            is_dynamic=True,
            doc="How long after its last check a closed segment is compared with its digest again;"
                " -1: never."),
    Setting("polylog.scrub.bytes.per.second", Kind.LONG, limits.SCRUB_BYTES_PER_SECOND,
            minimum=limits.SCRUB_STEP_BYTES, unit="bytes",
            is_dynamic=True,
            doc="The largest rate of that."),
)

_REPLICA = r"[0-9]+:[0-9]+|\*"

EVENT_SOURCING = "polylog.event.sourcing"

# Keys that only topics have. Tiered storage can only be off.
_TOPIC_ONLY = (
    Setting("remote.storage.enable", Kind.BOOLEAN, False, choices=("false",), applies=False,
            doc="Whether old segments move to tiered storage, which does not exist here."),
    Setting("remote.log.copy.disable", Kind.BOOLEAN, False, applies=False,
            doc="Whether tiered storage is read only."),
    Setting("remote.log.delete.on.disable", Kind.BOOLEAN, False, applies=False,
            doc="Whether switching tiered storage off deletes what it holds."),
    Setting("leader.replication.throttled.replicas", Kind.LIST, (), pattern=_REPLICA,
            doc="Replicas whose leaders are throttled, PARTITION:BROKER each, or * for all."),
    Setting("follower.replication.throttled.replicas", Kind.LIST, (), pattern=_REPLICA,
            doc="Replicas whose followers are throttled, PARTITION:BROKER each, or * for all."),
    Setting(EVENT_SOURCING, Kind.BOOLEAN, False,
            doc="Whether its records are events of streams, one stream per key: written by commands"
                " that check versions, never removed. Only a new topic can get it."),
)
# fmt: on


class View(NamedTuple):
    """A key of a topic or group, and the broker settings that it falls back to, in order."""

    setting: Setting
    synonyms: tuple[Setting, ...]


def in_topic_unit(setting: Setting, value: Value) -> Value:
    """Convert a value to the unit of its topic key; -1 (unlimited) stays -1."""
    return value * setting.scale if type(value) is int and value > 0 else value


def _topic_settings() -> dict[str, View]:
    """Group the rows by topic key, in the order of the table."""
    rows: dict[str, list[Setting]] = {}
    for setting in BROKER_SETTINGS.values():
        if setting.topic:
            rows.setdefault(setting.topic, []).append(setting)
    views = {key: _topic_setting(key, synonyms) for key, synonyms in rows.items()}
    views |= {setting.name: View(setting, ()) for setting in _TOPIC_ONLY}
    return dict(sorted(views.items()))


def _topic_setting(key: str, synonyms: list[Setting]) -> View:
    default = next(row for row in synonyms if row.default is not None)
    view = synonyms[0]._replace(name=key, default=in_topic_unit(default, default.default))
    return View(view, tuple(synonyms))


BROKER_SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for rows in (
        *(_NETWORK, _CLUSTER, _TOPICS, _LOGS, _RETENTION),
        *(_COORDINATORS, _PROCESS, _OTLP, _CLEANER, _SCRUB, SECURITY_SETTINGS),
    )
    for setting in rows
}
# Kafka's other names of settings; the name of the setting itself precedes.
ALIASES: dict[str, str] = {"broker.id": "node.id", "log.dir": "log.dirs"}

# By name; `add_topic_settings` adds those of protocols.
TOPIC_SETTINGS: dict[str, View] = _topic_settings()
TOPIC_KEYS: dict[str, Setting] = {name: view.setting for name, view in TOPIC_SETTINGS.items()}
GROUP_SETTINGS: dict[str, View] = {
    row.group: View(row._replace(name=row.group), (row,))
    for row in BROKER_SETTINGS.values()
    if row.group
}
DYNAMIC_SETTINGS: dict[str, Setting] = {
    row.name: row
    for row in BROKER_SETTINGS.values()
    if row.is_dynamic or (row.topic and TOPIC_SETTINGS[row.topic].synonyms[0] is row)
}


def per_listener_setting(name: str) -> Setting | None:
    """Return the row of `listener.name.<name>.[<mechanism>.]<setting>`, under that name.

    None: it is not such a name, or the setting is the same for all listeners.
    """
    listener, _, setting = name.removeprefix(PREFIX).partition(".")
    if not name.startswith(PREFIX) or not listener or listener != listener.lower():
        return None
    row = BROKER_SETTINGS.get(setting)
    if row is not None and row.is_per_listener:
        return row._replace(name=name)
    row = BROKER_SETTINGS.get(setting.partition(".")[2])
    if row is not None and row.is_per_mechanism:
        return row._replace(name=name)
    return None


def add_topic_settings(rows: Iterable[Setting]) -> None:
    """Add keys that only topics have, before the first topic is configured.

    The list of protocols (broker.protocols) adds theirs. A row may be added again.

    Raises:
        ValueError: another row has the name.
    """
    for row in rows:
        if TOPIC_SETTINGS.setdefault(row.name, View(row, ())).setting != row:
            raise ValueError(f"there is another topic setting {row.name}")
    ordered = sorted(TOPIC_SETTINGS.items())
    TOPIC_SETTINGS.clear()
    TOPIC_SETTINGS.update(ordered)
    TOPIC_KEYS.clear()
    TOPIC_KEYS.update((name, view.setting) for name, view in ordered)

"""Settings of Apache Kafka 4.3.1 that have no meaning in this broker, and names of its neighbours.

Kafka's configuration files are read as they are, and tools send whole sets of settings
(`kafka-configs.sh --alter`, librdkafka's tests). A setting that only Kafka has is accepted, has no
effect and is not stored; so are settings of plug-ins of Kafka, and those of earlier releases that
Kafka 4 ignores. Names that Kafka does not have either are refused, and so are those without which a
broker would do something else than its file says. tests/unit/model/test_unused_settings.py checks
that every name of Kafka is either here or in settings.py.
"""

from collections.abc import Iterable
from typing import Final

from broker.model.given import nearest_name
from broker.model.listener import PREFIX
from broker.model.settings import ALIASES, BROKER_SETTINGS, per_listener_setting

_MECHANISMS: Final = ("GSSAPI", "OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_NAMES = """
    add.partitions.to.txn.retry.backoff.max.ms
    add.partitions.to.txn.retry.backoff.ms
    alter.config.policy.class.name
    alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds
    background.threads
    broker.heartbeat.interval.ms
    client.quota.callback.class
    config.providers
    controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms
    controller.quorum.append.linger.ms
    controller.quorum.auto.join.enable
    controller.quorum.bootstrap.servers
    controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms
    controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes
    controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms
    controller.quorum.voters
    controller.socket.timeout.ms
    cordoned.log.dirs
    create.topic.policy.class.name
    delete.records.purgatory.purge.interval.requests
    early.start.listeners
    fetch.purgatory.purge.interval.requests
    follower.fetch.last.tiered.offset.enable
    group.consumer.assignment.interval.ms
    group.consumer.max.assignment.interval.ms
    group.consumer.min.assignment.interval.ms
    group.consumer.regex.refresh.interval.ms
    group.coordinator.append.linger.ms
    group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes
    group.coordinator.rebalance.protocols
    group.coordinator.threads
    group.share.assignment.interval.ms
    group.share.assignors
    group.share.delivery.count.limit
    group.share.heartbeat.interval.ms
    group.share.initialize.retry.interval.ms
    group.share.max.assignment.interval.ms
    group.share.max.delivery.count.limit
    group.share.max.heartbeat.interval.ms
    group.share.max.partition.max.record.locks
    group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms
    group.share.max.share.sessions
    group.share.max.size
    group.share.min.assignment.interval.ms
    group.share.min.delivery.count.limit
    group.share.min.heartbeat.interval.ms
    group.share.min.partition.max.record.locks
    group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms
    group.share.partition.max.record.locks
    group.share.persister.class.name
    group.share.record.lock.duration.ms
    group.share.session.timeout.ms
    group.streams.assignment.interval.ms
    group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms
    group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms
    group.streams.max.session.timeout.ms
    group.streams.max.size
    group.streams.max.standby.replicas
    group.streams.min.assignment.interval.ms
    group.streams.min.heartbeat.interval.ms
    group.streams.min.session.timeout.ms
    group.streams.num.standby.replicas
    group.streams.session.timeout.ms
    initial.broker.registration.timeout.ms
    internal.metadata.delete.delay.millis
    internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes
    kafka.metrics.polling.interval.secs
    kafka.metrics.reporters
    log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second
    log.dir.failure.timeout.ms
    log.flush.offset.checkpoint.interval.ms
    log.flush.start.offset.checkpoint.interval.ms
    log.initial.task.delay.ms
    max.request.partition.size.limit
    metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots
    metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes
    metadata.log.segment.ms
    metadata.max.idle.interval.ms
    metadata.max.retention.bytes
    metadata.max.retention.ms
    metric.reporters
    metrics.num.samples
    metrics.recording.level
    metrics.sample.window.ms
    num.io.threads
    num.network.threads
    num.recovery.threads.per.data.dir
    num.replica.alter.log.dirs.threads
    num.replica.fetchers
    offsets.commit.timeout.ms
    offsets.load.buffer.size
    offsets.retention.check.interval.ms
    offsets.topic.compression.codec
    offsets.topic.segment.bytes
    principal.builder.class
    process.roles
    producer.id.expiration.check.interval.ms
    producer.purgatory.purge.interval.requests
    queued.max.request.bytes
    queued.max.requests
    remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes
    remote.log.index.file.cache.ttl.ms
    remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.copy.quota.window.num
    remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.fetch.quota.window.num
    remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.follower.thread.pool.size
    remote.log.manager.task.interval.ms
    remote.log.manager.task.retry.backoff.max.ms
    remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter
    remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes
    remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path
    remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name
    remote.log.reader.max.pending.tasks
    remote.log.reader.threads
    remote.log.storage.manager.class.name
    remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix
    remote.log.storage.system.enable
    replica.fetch.backoff.ms
    replica.high.watermark.checkpoint.interval.ms
    replica.socket.receive.buffer.bytes
    replication.quota.window.num
    replication.quota.window.size.seconds
    request.timeout.ms
    sasl.client.callback.handler.class
    sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules
    sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class
    sasl.login.class
    sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms
    sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms
    sasl.mechanism.controller.protocol
    sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.token.endpoint.url
    security.providers
    server.max.startup.time.ms
    share.coordinator.append.linger.ms
    share.coordinator.cached.buffer.max.bytes
    share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size
    share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec
    share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions
    share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor
    share.coordinator.state.topic.segment.bytes
    share.coordinator.threads
    share.coordinator.write.timeout.ms
    share.fetch.purgatory.purge.interval.requests
    socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms
    socket.listen.backlog.size
    socket.receive.buffer.bytes
    socket.send.buffer.bytes
    ssl.engine.factory.class
    ssl.keymanager.algorithm
    ssl.protocol
    ssl.provider
    ssl.secure.random.implementation
    ssl.trustmanager.algorithm
    telemetry.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.partition.verification.enable
    transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size
    transaction.state.log.segment.bytes
    transaction.two.phase.commit.enable
    unclean.leader.election.interval.ms
    unstable.api.versions.enable
    unstable.feature.versions.enable
"""
UNUSED_SETTINGS: Final = frozenset(_NAMES.split())

# Of Kafka 1 to 3; Kafka 4 ignores them.
_OF_EARLIER_RELEASES = frozenset(
    """
    auto.include.jmx.reporter
    broker.id.generation.enable
    control.plane.listener.name
    controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms
    eligible.leader.replicas.enable
    group.coordinator.new.enable
    group.share.enable
    inter.broker.protocol.version
    log.message.format.version
    offsets.commit.required.acks
    password.encoder.cipher.algorithm
    password.encoder.iterations
    password.encoder.key.length
    password.encoder.keyfactory.algorithm
    password.encoder.old.secret
    password.encoder.secret
    quota.consumer.default
    quota.producer.default
    reserved.broker.max.id
    unstable.metadata.versions.enable
    """.split()  # noqa: SIM905 - one key a line, as above
)

# What the names of plug-ins' settings begin with: Kafka's own interfaces, Confluent's packages,
# Cruise Control, Strimzi.
_OF_PLUGINS = (
    "client.quota.callback.",
    "config.providers.",
    "confluent.",
    "cruise.control.",
    "kafka.csv.metrics.",
    "opa.authorizer.",
    "prometheus.metrics.reporter.",
    "rlmm.config.",
    "rsm.config.",
    "strimzi.",
)

_HINTS = {
    "advertised.host.name": "Kafka 3 has removed it: use advertised.listeners",
    "advertised.port": "Kafka 3 has removed it: use advertised.listeners",
    "delegation.token.master.key": "Kafka 4 has removed it: use delegation.token.secret.key",
    "host.name": "Kafka 3 has removed it: use listeners",
    "log.message.timestamp.difference.max.ms": "Kafka 4 has removed it: use"
    " log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    "port": "Kafka 3 has removed it: use listeners",
}
_ZOOKEEPER = "zookeeper."
_ZOOKEEPER_HINT = (
    "there is no ZooKeeper here, nor in Kafka 4: remove the settings of ZooKeeper; brokers of one"
    " cluster have the same polylog.metadata.store"
)


def is_unused(name: str) -> bool:
    """Whether it is a broker setting of Kafka without effect here, also for one listener."""
    names = [name]
    if name.startswith(PREFIX):
        # Perhaps after the name of a listener, perhaps after that and the one of a SASL mechanism.
        _, _, rest = name.removeprefix(PREFIX).partition(".")
        names = [rest, rest.partition(".")[2]]
    return any(
        each in UNUSED_SETTINGS or each in _OF_EARLIER_RELEASES or each.startswith(_OF_PLUGINS)
        for each in names
    )


def unknown(name: str, more: Iterable[str] = ()) -> str:
    """Return why a name that is neither used nor unused is refused, and what was meant.

    `more` are names that would be right, too.
    """
    if name.startswith(_ZOOKEEPER):
        return f"{name:.100}: {_ZOOKEEPER_HINT}"
    if name in _HINTS:
        return f"{name}: {_HINTS[name]}"
    return f"unknown setting {name!r:.100}{_nearest(name, more)}"


def accepted_names() -> frozenset[str]:
    """Return every name that a configuration file may have, without those of listeners."""
    return UNUSED_SETTINGS | _OF_EARLIER_RELEASES | BROKER_SETTINGS.keys() | ALIASES.keys()


def _nearest(name: str, more: Iterable[str]) -> str:
    known = accepted_names() | set(more)
    listener, _, setting = name.removeprefix(PREFIX).partition(".")
    if not name.startswith(PREFIX) or not setting:
        return nearest_name(name, known)
    if setting in BROKER_SETTINGS and per_listener_setting(f"{PREFIX}any.{setting}") is None:
        return f": {setting} is the same for all listeners"
    if listener != listener.lower():
        return f"; did you mean {PREFIX}{listener.lower()}.{setting}?"
    mechanism, _, of_mechanism = setting.partition(".")
    if mechanism.upper() in _MECHANISMS and of_mechanism:
        return nearest_name(of_mechanism, known, before=f"{PREFIX}{listener}.{mechanism}.")
    return nearest_name(setting, known, before=f"{PREFIX}{listener}.")

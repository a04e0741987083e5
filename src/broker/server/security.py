"""Makes the parts of access control that are configured."""

from collections.abc import Sequence

from broker._native.log.topic_table import TopicTable
from broker.core.cluster.security_entries import SecurityEntries
from broker.core.security import Security
from broker.core.security.authorizer import Authorizer, parse_super_users
from broker.core.service import Service
from broker.core.topics.topics import Topics
from broker.model.clock import Clock
from broker.model.config import Config
from broker.server.audit_topic import AuditTopic
from broker.server.auditing import audit_of, auditing_of
from broker.storage.log_dir import LogDir


def make_security(
    config: Config,
    log_dir: LogDir,
    topics: Topics,
    clock: Clock,
    entries: SecurityEntries,
    table: TopicTable,
) -> tuple[Security, Sequence[Service]]:
    """Return what handlers ask, and what starts before the first connection.

    Raises ConfigError for a configuration that is not possible, StorageError for a damaged entry.
    """
    security = Security(authorizer=_authorizer(config, entries, table))
    if not config.words("polylog.audit.events"):
        return security, ()
    topic = None
    if config.flag("polylog.audit.topic.enable"):
        topic = AuditTopic(topics, log_dir.node_id, clock)
    auditing = auditing_of(config, log_dir, clock, topic)
    services = (auditing,) if topic is None else (topic, auditing)
    return security._replace(audit=audit_of(config, auditing)), services


def _authorizer(config: Config, entries: SecurityEntries, table: TopicTable) -> Authorizer | None:
    if not config.text("authorizer.class.name"):
        return None
    return Authorizer(
        entries,
        table,
        super_users=parse_super_users(config.text("super.users")),
        allows_unlisted=config.flag("allow.everyone.if.no.acl.found"),
    )

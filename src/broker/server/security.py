"""Makes the parts of access control that are configured."""

from collections.abc import Sequence

from broker.core.security import Security
from broker.core.service import Service
from broker.core.topics.topics import Topics
from broker.model.clock import Clock
from broker.model.config import Config
from broker.server.audit_topic import AuditTopic
from broker.server.auditing import audit_of, auditing_of
from broker.storage.log_dir import LogDir


def make_security(
    config: Config, log_dir: LogDir, topics: Topics, clock: Clock
) -> tuple[Security, Sequence[Service]]:
    """Return what handlers ask, and what starts before the first connection. ConfigError."""
    if not config.words("polylog.audit.events"):
        return Security(), ()
    topic = None
    if config.flag("polylog.audit.topic.enable"):
        topic = AuditTopic(topics, log_dir.node_id, clock)
    auditing = auditing_of(config, log_dir, clock, topic)
    services = (auditing,) if topic is None else (topic, auditing)
    return Security(audit=audit_of(config, auditing)), services

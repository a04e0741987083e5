"""Makes what protects a broker: users, tokens, logins, the authorizer."""

from typing import TYPE_CHECKING

from broker._native.log.topic_table import TopicTable
from broker.core.metadata import Metadata
from broker.core.security import Security
from broker.core.security.logins import Logins, Sources
from broker.core.security.tokens import Tokens, TokenTimes
from broker.core.security.users import Users
from broker.model.clock import Clock
from broker.model.config import Config
from broker.model.principal import parse_principals

if TYPE_CHECKING:
    from broker.core.security.authorizer import Authorizer


def make_security(config: Config, known: Metadata, clock: Clock, table: TopicTable) -> Security:
    """Make the parts; `table` has the topics that the native paths serve.

    Raises:
        ConfigError: the logins of a listener cannot be served, or a super user is no principal.
        StorageError: an access control entry is damaged.
    """
    users, tokens = Users(known), _tokens(config, known, clock)
    has_login = any(each.security.has_sasl for each in config.listeners)
    logins = Logins(config, Sources(users, tokens, clock)) if has_login else None
    authorizer = _authorizer(config, known, table)
    return Security(authorizer, users=users, tokens=tokens, logins=logins)


def _authorizer(config: Config, known: Metadata, table: TopicTable) -> "Authorizer | None":
    if not config.text("authorizer.class.name"):
        return None
    # Imported where it is needed: a broker without an authorizer needs none of it.
    from broker.core.security.authorizer import Authorizer  # noqa: PLC0415

    return Authorizer(
        known.image.security,
        table,
        super_users={str(each) for each in parse_principals(config.text("super.users"))},
        allows_unlisted=config.flag("allow.everyone.if.no.acl.found"),
        decides_all=not {"access", "question"}.isdisjoint(config.words("polylog.audit.events")),
    )


def _tokens(config: Config, known: Metadata, clock: Clock) -> Tokens | None:
    secret = config.text_or_none("delegation.token.secret.key")
    if not secret:
        return None
    times = TokenTimes(
        config.integer("delegation.token.expiry.time.ms"),
        config.integer("delegation.token.max.lifetime.ms"),
        config.integer("delegation.token.expiry.check.interval.ms"),
    )
    return Tokens(known, clock, secret.encode(), times)

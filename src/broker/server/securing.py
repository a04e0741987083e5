"""Makes what protects a broker: users, tokens, logins."""

from broker.core.metadata import Metadata
from broker.core.security import Security
from broker.core.security.logins import Logins, Sources
from broker.core.security.tokens import Tokens, TokenTimes
from broker.core.security.users import Users
from broker.model.clock import Clock
from broker.model.config import Config


def make_security(config: Config, known: Metadata, clock: Clock) -> Security:
    """Make the parts; ConfigError for a listener whose logins cannot be served."""
    users, tokens = Users(known), _tokens(config, known, clock)
    has_login = any(each.security.has_sasl for each in config.listeners)
    logins = Logins(config, Sources(users, tokens, clock)) if has_login else None
    return Security(users=users, tokens=tokens, logins=logins)


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

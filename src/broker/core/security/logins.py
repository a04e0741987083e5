"""How connections of a listener log in: its mechanisms, from the configuration and what is stored.

docs/security/sasl.md describes the settings.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from broker.core.security.failures import FailureDelays
from broker.core.security.login import Login, LoginRules
from broker.core.security.sasl import oauthbearer, plain
from broker.core.security.sasl.oauthbearer import OAuthBearer
from broker.core.security.sasl.outcome import Mechanism
from broker.core.security.sasl.plain import Plain
from broker.core.security.sasl.scram import Scram, ScramIdentity
from broker.core.security.tokens import Tokens
from broker.core.security.users import Users, with_password
from broker.core.security.work import LoginWork
from broker.model.clock import Clock
from broker.model.config import Config, Values
from broker.model.errors import ConfigError
from broker.model.jaas import parse_jaas
from broker.model.listener import ListenerConfig
from broker.model.scram import MECHANISMS, ScramMechanism

_NONCE_BYTES = 24


class Sources(NamedTuple):
    """Where the mechanisms find whom credentials are of.

    Attributes:
        users: those that are stored.
        tokens: delegation tokens; None: there are none.
        clock: for the keys of tokens, which are read again after a time.
    """

    users: Users
    tokens: Tokens | None
    clock: Clock


class Logins:
    """The rules of all listeners that have a login, the thread of long computations, failures."""

    def __init__(self, config: Config, sources: Sources) -> None:
        """Read the settings of the listeners; ConfigError for one that cannot be served."""
        self.work = LoginWork()
        self.failures = FailureDelays(sources.clock.monotonic_ms)
        self.rules = {
            each.name: _rules(config, each, sources)
            for each in config.listeners
            if each.security.has_sasl
        }

    def begin(self, listener: ListenerConfig) -> Login | None:
        """Begin the login of a connection; None: its listener has none."""
        rules = self.rules.get(listener.name)
        return None if rules is None else Login(rules)


def _rules(config: Config, listener: ListenerConfig, sources: Sources) -> LoginRules:
    values = config.of_listener(listener)
    names = values.words("sasl.enabled.mechanisms")
    if not names:
        raise ConfigError(f"listener {listener.name} has no sasl.enabled.mechanisms")
    mechanisms = {}
    for name in names:
        try:
            mechanisms[name] = _mechanism(name, config.of_listener(listener, name), sources)
        except ConfigError as error:
            raise ConfigError(f"listener {listener.name}, {name}: {error}") from None
    return LoginRules(
        mechanisms,
        values.integer("connections.max.reauth.ms"),
        values.integer("connection.failed.authentication.delay.ms"),
    )


def _mechanism(name: str, values: Values, sources: Sources) -> Mechanism:
    jaas = values.text_or_none("sasl.jaas.config")
    users = {} if jaas is None else parse_jaas(jaas).users
    if name in MECHANISMS:
        find = partial(_identity, sources, MECHANISMS[name], users)
        return Scram(MECHANISMS[name], find, _nonce)
    if name == plain.NAME:
        return Plain(users, sources.users.comparison)
    assert name == oauthbearer.NAME
    return OAuthBearer(_verifier(values, sources.clock))


def _identity(
    sources: Sources,
    mechanism: ScramMechanism,
    configured: Mapping[str, str],
    user: str,
    is_token: bool,
    now_ms: int,
) -> ScramIdentity | Callable[[], ScramIdentity]:
    if not is_token:
        identity = sources.users.identity(user, mechanism)
        if not configured:
            return identity
        return partial(with_password, mechanism, identity, configured.get(user))
    tokens = sources.tokens
    found = None if tokens is None else tokens.identity(user, mechanism, now_ms)
    if found is not None:
        return found
    return ScramIdentity(user, sources.users.made_up(user, mechanism), is_known=False)


def _verifier(values: Values, clock: Clock) -> oauthbearer.Verify:
    from broker.core.security.sasl.bearer_tokens import Claims  # noqa: PLC0415 - see below
    from broker.core.security.token_keys import TokenKeys, reader  # noqa: PLC0415 - rarely needed

    url = values.text_or_none("sasl.oauthbearer.jwks.endpoint.url")
    if not url:
        raise ConfigError("set sasl.oauthbearer.jwks.endpoint.url to the keys of your server")
    claims = Claims(
        values.words("sasl.oauthbearer.expected.audience"),
        values.text_or_none("sasl.oauthbearer.expected.issuer"),
        values.text("sasl.oauthbearer.sub.claim.name"),
        values.integer("sasl.oauthbearer.clock.skew.seconds") * 1000,
    )
    read = reader(url, values.words("polylog.sasl.oauthbearer.allowed.urls"))
    refresh_ms = values.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms")
    return TokenKeys(read, claims, refresh_ms, clock.monotonic_ms).verify


def _nonce() -> str:
    return os.urandom(_NONCE_BYTES).hex()

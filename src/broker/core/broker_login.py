"""How this broker logs in to others, over the listener by which brokers reach each other.

Its name and password are those of the listener's JAAS line, as in Kafka:

    listener.name.<name>.<mechanism>.sasl.jaas.config = ...LoginModule required username= password=
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from broker.client.sasl import Credentials, login
from broker.codec.messages import read_response, request_frame
from broker.core.dialing import Exchange, Login
from broker.model.config import Config
from broker.model.errors import ConfigError, PeerError
from broker.model.identifiers import BROKERS_CLIENT_ID
from broker.model.jaas import parse_jaas
from broker.model.listener import ListenerConfig

_SIZE_BYTES: Final = 4


def login_to_brokers(config: Config, listener: ListenerConfig) -> Login:
    """Return what logs in on a connection to another broker; ConfigError without credentials."""
    mechanism = config.text("sasl.mechanism.inter.broker.protocol")
    line = config.of_listener(listener, mechanism).text_or_none("sasl.jaas.config")
    name = f"{listener.prefix}{mechanism.lower()}.sasl.jaas.config"
    options = {} if line is None else parse_jaas(line).options
    if not options.get("username") or "password" not in options:
        raise ConfigError(
            f"{name} has no username and password: brokers log in to each other over listener"
            f" {listener.name} with {mechanism} (sasl.mechanism.inter.broker.protocol)"
        )
    credentials = Credentials(mechanism, options["username"], options["password"])
    return partial(_log_in, credentials)


async def _log_in(credentials: Credentials, exchange: Exchange) -> None:
    chosen = await _ask(exchange, "SaslHandshake", 1, {"mechanism": credentials.mechanism})
    if chosen["error_code"]:
        raise PeerError(f"the other broker does not offer {credentials.mechanism}")
    steps = login(credentials)
    message: bytes | None = steps.first()
    while message is not None:
        # Version 0: the session's lifetime is not told, and brokers connect again after it.
        answer = await _ask(exchange, "SaslAuthenticate", 0, {"auth_bytes": message})
        if answer["error_code"]:
            raise PeerError(f"the other broker refuses {credentials.user}'s login")
        # It derives keys, which takes milliseconds.
        message = await asyncio.to_thread(steps.answer, answer["auth_bytes"])


async def _ask(
    exchange: Exchange, api: str, version: int, body: Mapping[str, Any]
) -> Mapping[str, Any]:
    frame = request_frame(api, version, body, client_id=BROKERS_CLIENT_ID)
    return read_response(api, version, await exchange(frame[_SIZE_BYTES:])).body

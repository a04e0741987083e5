"""The options with which commands reach brokers, as click has parsed them."""

from typing import Any, Final

import click
from click.core import ParameterSource

from broker.cli.profiles import Connection, connection_of

NAMES: Final = ("bootstrap_server", "command_config", "profile", "timeout")


def connection_in(context: click.Context, timeout_seconds: float | None = None) -> Connection:
    """Return how to reach brokers; a profile that is an option precedes the environment.

    Otherwise a command with --profile would reach the brokers of another one, perhaps with the
    login of this one. `timeout_seconds` replaces --timeout. Raises ConfigError.
    """
    given: dict[str, Any] = {name: context.params.get(name) for name in NAMES}
    if context.get_parameter_source("profile") is ParameterSource.COMMANDLINE:
        for name in NAMES:
            if context.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
                given[name] = None
    server, config, profile, timeout = given.values()
    return connection_of(server, config, profile, timeout_seconds or timeout)

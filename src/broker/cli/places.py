"""Where commands find what a broker stores: in a stopped one's data directory, or at a running one.

Both are options of the same command: a first user exists before the broker has started.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from broker.cli.reporting import Parser

if TYPE_CHECKING:
    from broker.client.connection import Client
    from broker.model.config import Config

    Place: TypeAlias = Config | Client


def add_place(command: Parser) -> None:
    """Add the options that say where."""
    where = command.add_mutually_exclusive_group()
    where.add_argument("--data-dir", metavar="DIR", help="data directory of a stopped broker")
    where.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", help="address of a running broker"
    )
    command.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="Kafka's client settings for --bootstrap-server: security.protocol, sasl.mechanism,"
        " sasl.jaas.config, ssl.truststore.location",
    )
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="settings of a stopped broker, as for start"
    )
    command.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="set one of them"
    )


def place_of(parsed: argparse.Namespace) -> "Place":
    """Return the configuration of the stopped broker, or a client of the running one."""
    if parsed.bootstrap_server is None:
        from broker.cli.start import configuration  # noqa: PLC0415 - not needed by `--help`

        return configuration(parsed.config, parsed.data_dir, None, parsed.set)
    from broker.client.connection import Client  # noqa: PLC0415 - not needed by `--help`
    from broker.model.address import parse_address  # noqa: PLC0415

    secured = None
    if parsed.command_config is not None:
        from broker.client.security import read_security  # noqa: PLC0415 - imports ssl

        secured = read_security(parsed.command_config).secured()
    return Client(parse_address(parsed.bootstrap_server), secured=secured)

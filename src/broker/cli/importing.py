"""`broker import PROTOCOL`: the import commands of the protocols that have one."""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from broker.cli.reporting import FORMATTER, add_broker, print_progress
from broker.protocols import PROTOCOLS

if TYPE_CHECKING:
    from broker.protocols.base import ImportCommand


def run(argv: Sequence[str]) -> int:
    """Run one of the commands; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="broker import",
        description="Import the data of another server into a running broker.",
        formatter_class=FORMATTER,
    )
    servers = parser.add_subparsers(dest="protocol", metavar="PROTOCOL", required=True)
    commands: dict[str, ImportCommand] = {}
    for protocol in PROTOCOLS:
        if protocol.import_command:
            command = cast("ImportCommand", import_module(protocol.import_command))
            commands[protocol.name] = command
            server = servers.add_parser(
                protocol.name,
                help=command.SUMMARY,
                description=command.DESCRIPTION,
                formatter_class=FORMATTER,
            )
            command.add_options(server)
            add_broker(server)
    options = parser.parse_args(argv)
    return commands[options.protocol].run(options, print_progress)

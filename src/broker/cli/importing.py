"""`broker import PROTOCOL`: the import commands of the protocols that have one."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from broker.cli.reporting import Parser, add_broker, print_progress
from broker.protocols import PROTOCOLS

if TYPE_CHECKING:
    from broker.protocols.base import ImportCommand


def run(argv: Sequence[str]) -> int:
    """Run one of the commands; return its exit code."""
    parser = Parser(
        prog="broker import",
        description="Import the data of another server into a running broker.",
    )
    servers = parser.add_commands("PROTOCOL")
    commands: dict[str, ImportCommand] = {}
    for protocol in PROTOCOLS:
        if protocol.import_command:
            command = cast("ImportCommand", import_module(protocol.import_command))
            commands[protocol.name] = command
            server = servers.add_parser(
                protocol.name,
                help=command.SUMMARY,
                description=command.DESCRIPTION,
            )
            command.add_options(server)
            add_broker(server)
    options = parser.parse_args(argv)
    return commands[options.command].run(options, print_progress)

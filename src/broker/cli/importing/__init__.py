"""`broker import PROTOCOL`: the import commands of the protocols that have one."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from broker.cli.exit_codes import Exit
from broker.cli.frame import Noun, Session, Verb, verb
from broker.cli.reporting import print_progress
from broker.model.protocol_names import PROTOCOL_NAMES

if TYPE_CHECKING:
    from broker.client.connection import Client
    from broker.protocols.import_command import Import, ImportCommand


@cache
def _modules() -> dict[str, str]:
    """Return the packages by protocol; nothing is imported of protocols that have no command."""
    packages = {name: f"broker.protocols.{name}.importing" for name in PROTOCOL_NAMES}
    return {name: each for name, each in packages.items() if find_spec(each) is not None}


class _Imports(Noun):
    """The noun, whose verbs are the protocols."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return _command(cmd_name) if cmd_name in _modules() else None


@cache
def _command(name: str) -> Verb:
    """Return the command of a protocol."""
    package = _modules()[name]
    described = cast("ImportCommand", import_module(package))

    def run(session: Session, folder: Path, **options: Any) -> None:  # noqa: ANN401 - numbers
        def connect() -> "Client":
            from broker.client.connection import Client  # noqa: PLC0415 - not for `--help`

            address = session.cluster.check_reachable()
            connection = session.connection
            security = connection.security()
            return Client(
                address,
                timeout_seconds=connection.timeout_seconds,
                secured=None if security is None else security.secured(),
            )

        command = cast("Import", import_module(f"{package}.command"))  # not for `--help`
        imported = command.run(folder, options, connect, print_progress)
        if session.is_text:
            session.output.stream.write("".join(f"{each}\n" for each in imported.text))
        else:
            session.write(imported.row)
        if imported.problem:
            print_progress(f"broker: {imported.problem}")
            session.exit_code = Exit.FAILED

    run.__doc__ = described.DESCRIPTION
    with_options: Any = run
    for each in reversed(described.OPTIONS):
        if each.allowed is None:
            kind: dict[str, Any] = {"is_flag": True}
        else:
            numbers = click.IntRange(each.allowed[0], each.allowed[-1])
            kind = {"type": numbers, "default": each.default, "metavar": "N"}
        with_options = click.option(f"--{each.name}", help=each.help, **kind)(with_options)
    path = click.Path(path_type=Path, file_okay=False)
    with_options = click.argument("folder", metavar="DIR", type=path)(with_options)
    made = verb(
        described.ROW,
        name=name,
        is_single=True,
        server_names=("--broker",),
        examples=described.EXAMPLES,
    )
    return made(with_options)


NOUN: Final = _Imports("import", (), __name__)

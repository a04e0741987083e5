"""`broker import PROTOCOL`: the import commands of the protocols that have one."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from broker.cli.exit_codes import Exit
from broker.cli.frame import Noun, Session, Verb, verb
from broker.cli.reporting import print_progress

if TYPE_CHECKING:
    from broker.client.connection import Client
    from broker.protocols.base import ImportCommand


@cache
def _modules() -> dict[str, str]:
    """Return the modules by protocol; the import of the protocols takes a tenth of a second."""
    from broker.protocols import PROTOCOLS  # noqa: PLC0415 - as said above

    return {each.name: each.import_command for each in PROTOCOLS if each.import_command}


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
    module = cast("ImportCommand", import_module(_modules()[name]))

    def run(session: Session, folder: Path, **options: Any) -> None:  # noqa: ANN401 - numbers
        def connect() -> "Client":
            from broker.client.connection import Client  # noqa: PLC0415 - not for `--help`

            address = session.cluster.check_reachable()
            security = session.connection.security()
            return Client(address, secured=None if security is None else security.secured())

        imported = module.run(folder, options, connect, print_progress)
        if session.is_text:
            session.output.stream.write("".join(f"{each}\n" for each in imported.text))
        else:
            session.write(imported.row)
        if imported.problem:
            print_progress(f"broker: {imported.problem}")
            session.exit_code = Exit.FAILED

    run.__doc__ = module.DESCRIPTION
    with_options: Any = run
    for each in reversed(module.OPTIONS):
        with_options = click.option(
            f"--{each.name}",
            type=click.IntRange(each.allowed[0], each.allowed[-1]),
            default=each.default,
            metavar="N",
            help=each.help,
        )(with_options)
    path = click.Path(path_type=Path, file_okay=False)
    with_options = click.argument("folder", metavar="DIR", type=path)(with_options)
    made = verb(
        module.ROW, name=name, is_single=True, server_names=("--broker",), examples=module.EXAMPLES
    )
    return made(with_options)


NOUN: Final = _Imports("import", (), __name__)

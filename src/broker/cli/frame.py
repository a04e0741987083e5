"""The frame of all commands but `start`: nouns, verbs, and the options they share.

A noun is a module with `NOUN`, a table of its verbs' modules; a verb is a module with `command`:

    @verb(Listed, examples=("broker topic list", "broker topic list 'orders.*' -o name"))
    @click.argument("pattern", required=False, shell_complete=topics)
    def command(session: Session, pattern: str | None) -> None:
        '''List topics.'''
        for each in list_topics(session.cluster):
            session.write(Listed(...))

The options of the connection and -o are added by `verb`. click is imported by these commands only:
it takes 30 ms, typer with pydantic, which converts arguments, takes 60 ms.

A verb whose rows belong together prints a report: rows, totals, and problems, which make it fail.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

import click

from broker.cli import connecting
from broker.cli.exit_codes import Exit, exit_code_of
from broker.cli.nouns import NOUNS
from broker.cli.output import FORMATS, Output, Row
from broker.cli.profiles import Connection
from broker.cli.reporting import discard_output, print_error
from broker.cli.times import Seconds
from broker.model.errors import PolylogError
from broker.model.given import COMMAND_VARIABLES, nearest_name
from broker.model.printable import printable

if TYPE_CHECKING:
    from broker.client.metadata import Cluster
    from broker.model.report import Report

_P = ParamSpec("_P")
_VARIABLES: Final = {option: variable for variable, option in COMMAND_VARIABLES.items()}
_CONTEXT: Final = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}


class Session:
    """One run of a verb: its connection, what it prints, and how it ends.

    Attributes:
        output: where rows go.
        is_text: whether no format was asked for: a verb that prints text prints it as it is.
        exit_code: of the command; the first failure decides it.
    """

    def __init__(
        self, connection: Callable[[], Connection] | None, output: Output, *, is_text: bool
    ) -> None:
        """Keep them; the connection is looked up and made when it is needed."""
        self._connection = connection
        self.output = output
        self.is_text = is_text
        self.exit_code = Exit.OK

    @cached_property
    def connection(self) -> Connection:
        """How brokers are reached."""
        assert self._connection is not None, "a verb that is local has no connection"
        return self._connection()

    @cached_property
    def cluster(self) -> "Cluster":
        """The cluster, one of whose brokers has answered."""
        return self.connection.cluster()

    def close(self) -> None:
        """Close the connections, if there are some."""
        if "cluster" in self.__dict__:
            self.cluster.close()

    def write(self, row: Row) -> None:
        """Print a row."""
        self.output.write(row)

    def report(self, report: "Report") -> None:
        """Print a report; the command fails if it has problems."""
        self.output.write_report(report)
        if not report.is_well and self.exit_code == Exit.OK:
            self.exit_code = Exit.FAILED

    def print_text(self, row: Row, field: str) -> None:
        """Print one field of the only row as text, unless a format was asked for."""
        if self.is_text:
            self.output.stream.write(row._asdict()[field].rstrip("\n") + "\n")
        else:
            self.output.write(row)

    def fail(self, error: PolylogError) -> None:
        """Print an error of one of several things; the command goes on, and fails in the end."""
        print_error(error)
        if self.exit_code == Exit.OK:
            self.exit_code = exit_code_of(error)


class Verb(click.Command):
    """A verb of a noun.

    Attributes:
        row: the class of its rows.
        columns: the fields that its table has.
        is_single: whether it prints one row.
        is_local: whether it needs no broker.
        examples: command lines.
        totals: what the totals of its report mean, by name; None: it prints no report.
        other_row: the class of its rows with one of its options; None: of all.
    """

    row: type[Row]
    totals: Mapping[str, str] | None
    other_row: type[Row] | None
    columns: tuple[str, ...]
    is_single: bool
    is_local: bool
    examples: tuple[str, ...]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        del ctx
        if self.examples:
            with formatter.section("Examples"):
                for each in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{each}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the verb, then those that all verbs have."""
        own: list[tuple[str, str]] = []
        others: list[tuple[str, str]] = []
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None and isinstance(each, click.Option):
                (others if is_shared(each) or each.name == "help" else own).append(record)
        for title, records in (("Options", own), ("Options of all commands", others)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Noun(click.Group):
    """A noun, whose verbs are imported when they are used."""

    def __init__(self, name: str, verbs: Sequence[str], package: str) -> None:
        """Keep the names of the verbs; `create` is the module create_verb of the package."""
        purpose = NOUNS[name]
        super().__init__(
            name=name,
            help=f"{purpose[0].upper()}{purpose[1:]}.",
            context_settings=_CONTEXT,
        )
        self._verbs = tuple(verbs)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        del ctx
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        del ctx
        if cmd_name not in self._verbs:
            return None
        module = import_module(f"{self._package}.{cmd_name.replace('-', '_')}_verb")
        command: Verb = module.command
        command.name = cmd_name
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; the error for an unknown one names those that exist."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            hint = nearest_name(name, known) or "."
            ctx.fail(f"there is no verb {name!r}{hint} It is one of: {', '.join(known)}")
        return super().resolve_command(ctx, args)


def _output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        help="Format of what is printed (default: table on a terminal, jsonl otherwise).",
    )(function)


def _connection_options(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    from broker.cli.completion import profile_names  # noqa: PLC0415 - it imports this module

    options = (
        click.option(
            "-b",
            "--bootstrap-server",
            *names,
            metavar="HOST:PORT[,...]",
            envvar=_VARIABLES["--bootstrap-server"],
            help="Addresses of brokers (default: those of the profile, or localhost:9092).",
        ),
        click.option(
            "--command-config",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            envvar=_VARIABLES["--command-config"],
            help="Kafka's client settings: security.protocol, sasl.mechanism, ...",
        ),
        click.option(
            "--profile",
            metavar="NAME",
            envvar=_VARIABLES["--profile"],
            shell_complete=profile_names,
            help="Use this profile of `broker profile` instead of the current one.",
        ),
        click.option(
            "--timeout",
            type=Seconds(),
            default=15.0,
            metavar="SECONDS",
            help="Wait this long for an answer (default: 15).",
        ),
    )
    for each in reversed(options):
        function = each(function)
    return function


def is_shared(parameter: click.Parameter) -> bool:
    """Return whether a parameter is one that all verbs have."""
    return parameter.name in {*connecting.NAMES, "output"}


def verb(  # noqa: PLR0913 - what a verb is
    row: type[Row],
    *,
    examples: Sequence[str],
    name: str | None = None,
    columns: Sequence[str] | None = None,
    is_single: bool = False,
    is_local: bool = False,
    totals: Mapping[str, str] | None = None,
    other_row: type[Row] | None = None,
    server_names: Sequence[str] = (),
) -> Callable[[Callable[Concatenate[Session, _P], None]], Verb]:
    """Return a decorator that makes a function of a session and its options a verb.

    Args:
        row: the NamedTuple of what it prints; the first field is the name.
        examples: command lines, which the help, the documents and the tests have.
        name: of a command that is one word; the verb of a noun is named by its module.
        columns: the fields of the table; None: all.
        is_single: it prints one row: an object, and a table of lines.
        is_local: it needs no broker, and has no options of a connection.
        totals: it prints a report, whose totals have these names and meanings.
        other_row: the class of its rows with one of its options.
        server_names: other names of --bootstrap-server, with which it was called before.
    """

    def decorate(function: Callable[Concatenate[Session, _P], None]) -> Verb:
        shown = tuple(row._fields if columns is None else columns)

        @wraps(function)
        def run(**options: Any) -> int:  # noqa: ANN401 - those of the function
            connection = None
            if not is_local:
                connection = partial(connecting.connection_in, click.get_current_context())
                for each in connecting.NAMES:
                    del options[each]
            asked = options.pop("output")
            chosen = asked or ("table" if sys.stdout.isatty() else "jsonl")
            output = Output(chosen, row._fields, shown, is_single=is_single)
            session = Session(connection, output, is_text=asked is None)
            try:
                _call(function, session, options)
            except BrokenPipeError:
                discard_output()
            finally:
                session.close()
            return session.exit_code

        with_options = _output_options(run)
        if not is_local:
            with_options = _connection_options(with_options, *server_names)
        command = click.command(name, cls=Verb, context_settings=_CONTEXT)(with_options)
        command.row, command.columns, command.examples = row, shown, tuple(examples)
        command.is_single, command.is_local = is_single, is_local
        command.totals, command.other_row = totals, other_row
        return command

    return decorate


def _call(function: Callable[..., None], session: Session, options: dict[str, Any]) -> None:
    try:
        function(session, **options)
    except BrokenPipeError:
        raise
    except BaseException:
        if session.output.has_rows:  # so that they can be read; otherwise the error says all
            session.output.close()
        raise
    session.output.close()


def gathered(
    name: str, kind: type[Row], options: Sequence[Callable[[Any], Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options, which the function gets as one value.

    Args:
        name: of this argument of the function.
        kind: its NamedTuple; an option is the field with its name.
        options: decorators of click, in the order of the help.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*given: Any, **values: Any) -> Any:  # noqa: ANN401 - those of the function
            value = kind(*(values.pop(each) for each in kind._fields))
            return function(*given, **values, **{name: value})

        with_options: Callable[..., Any] = run
        for each in reversed(options):
            with_options = each(with_options)
        return with_options

    return decorate


def dry_run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --dry-run, which everything that changes something has."""
    return click.option(
        "--dry-run", is_flag=True, help="Say what would be done, and change nothing."
    )(function)


def yes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --yes, which everything that destroys something has."""
    return click.option(
        "-y", "--yes", is_flag=True, help="Do not ask for the name as confirmation."
    )(function)


def pairs(values: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Return NAME=VALUE options as pairs, in their order."""
    found = []
    for each in values:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise click.UsageError(f"{option} {each}: expected NAME=VALUE")
        found.append((name, value))
    return found


def run(  # noqa: PLR0911 - a kind of end each
    noun: Noun | Verb, arguments: Sequence[str]
) -> int:
    """Run a verb of a noun, or a command of one word; a usage error is a line with what to do."""
    try:
        code: int | None = noun.main(
            args=list(arguments), prog_name=f"broker {noun.name}", standalone_mode=False
        )
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return Exit.USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else f"broker {noun.name}"
        print(f"broker: {error.format_message()} (see `{where} --help`)", file=sys.stderr)
        return Exit.USAGE
    except click.ClickException as error:
        print(f"broker: {error.format_message()}", file=sys.stderr)
        return Exit.FAILED
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except (PolylogError, OSError):
        raise
    except UnicodeEncodeError as error:
        print(f"broker: {printable(str(error.object))[:100]}: this is no UTF-8", file=sys.stderr)
        return Exit.USAGE
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        _print_defect(error)
        return Exit.DEFECT
    return code or Exit.OK


def _print_defect(error: Exception) -> None:
    """Print an error that no user can do anything about, with its place."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    print(
        f"broker: a defect of this command: {type(error).__name__}: {printable(str(error))}{place}"
        " (please report it with `broker version`; `python -X dev -m broker ...` shows more)",
        file=sys.stderr,
    )

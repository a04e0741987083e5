"""`broker user`: the users that log in with SCRAM, of a stopped broker or of a running one."""

import argparse
import getpass
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from broker.cli.places import add_place, place_of
from broker.cli.reporting import Parser
from broker.model.errors import ConfigError
from broker.model.sasl_limits import PASSWORD_FILE_BYTES_MAX
from broker.model.scram import (
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    ScramMechanism,
)
from broker.model.secret_file import check_secret_file

if TYPE_CHECKING:
    from broker.client.connection import Client
    from broker.model.config import Config

_DEFAULT_MECHANISM = "SCRAM-SHA-512"


class Place(Protocol):
    """Where users are: in a stopped broker's data directory, or at a running broker."""

    def mechanisms(self) -> dict[str, list[tuple[ScramMechanism, int]]]:
        """Return the mechanisms of all users with their iterations."""

    def set_password(
        self, user: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> None:
        """Set a user's password."""

    def delete(self, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
        """Delete a user's credentials."""


class _Stopped:
    def __init__(self, config: "Config", *, is_new: bool) -> None:
        self._config = config
        self._is_new = is_new

    def mechanisms(self) -> dict[str, list[tuple[ScramMechanism, int]]]:
        from broker.server import offline_users  # noqa: PLC0415 - not needed by `--help`

        known = offline_users.credentials(self._config, is_new=self._is_new)
        return {
            user: [
                (each.mechanism, each.credential.iterations) for each in found if each.credential
            ]
            for user, found in known.items()
        }

    def set_password(
        self, user: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> None:
        from broker.core.security.users import (  # noqa: PLC0415 - not needed by `--help`
            Credential,
            check_name,
            new_credential,
        )
        from broker.server import offline_users  # noqa: PLC0415

        check_name(user)
        changes = [
            Credential(user, each, new_credential(each, password, iterations))
            for each in mechanisms
        ]
        offline_users.alter(self._config, changes)

    def delete(self, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
        from broker.core.security.users import Credential  # noqa: PLC0415
        from broker.server import offline_users  # noqa: PLC0415

        offline_users.alter(self._config, [Credential(user, each, None) for each in mechanisms])


class _Running:
    def __init__(self, client: "Client") -> None:
        from broker.client import users  # noqa: PLC0415 - not needed by `--help`

        self._client = client
        self._users = users

    def mechanisms(self) -> dict[str, list[tuple[ScramMechanism, int]]]:
        return self._users.credentials(self._client)

    def set_password(
        self, user: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> None:
        self._users.set_password(self._client, user, password, mechanisms, iterations)

    def delete(self, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
        self._users.delete(self._client, user, mechanisms)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    parser = Parser(prog="broker user")
    commands = parser.add_commands()
    _add(
        commands.add_parser(
            "create",
            help="create a user",
            description="Create a user, who logs in with SCRAM. With --data-dir the broker must be"
            " stopped; its data directory may not exist yet.",
        ),
        has_password=True,
    )
    _add(
        commands.add_parser(
            "passwd",
            help="set a user's password",
            description="Set the password of a user. Open connections stay.",
        ),
        has_password=True,
    )
    _add(
        commands.add_parser(
            "delete",
            help="delete a user",
            description="Delete a user. Open connections stay; ACLs for the user stay, too.",
        )
    )
    _add(commands.add_parser("list", help="list users with their mechanisms"), has_name=False)
    parsed = parser.parse_args(arguments)
    if not ITERATIONS_MIN <= getattr(parsed, "iterations", ITERATIONS) <= ITERATIONS_MAX:
        raise ConfigError(f"--iterations: {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    place = _place(parsed)
    if parsed.command == "list":
        for user, found in sorted(place.mechanisms().items()):
            texts = ", ".join(
                f"{each.name} ({iterations} iterations)" for each, iterations in found
            )
            print(f"{user}: {texts}")
        return 0
    named = [MECHANISMS[each] for each in parsed.mechanism]
    known = [each for each, _ in place.mechanisms().get(parsed.name, [])]
    if parsed.command == "delete":
        wanted = _existing(parsed.name, named, known)
        place.delete(parsed.name, wanted)
        print(f"deleted {parsed.name}: {_names(wanted)}")
        return 0
    if parsed.command == "passwd":
        wanted = _existing(parsed.name, named, known)
    else:
        wanted = named or [MECHANISMS[_DEFAULT_MECHANISM]]
        there = [each for each in wanted if each in known]
        if there:
            raise ConfigError(
                f"user {parsed.name} exists with {_names(there)}: set the password with"
                " `broker user passwd`"
            )
    place.set_password(parsed.name, _password(parsed.password_file), wanted, parsed.iterations)
    print(
        f"{'created' if parsed.command == 'create' else 'changed'} {parsed.name}: {_names(wanted)}"
    )
    return 0


def _add(command: Parser, *, has_name: bool = True, has_password: bool = False) -> None:
    if has_name:
        command.add_argument("name", metavar="NAME", help="the user's name")
        command.add_argument(
            "--mechanism",
            action="append",
            default=[],
            choices=tuple(MECHANISMS),
            help="may be repeated (default: "
            + (f"{_DEFAULT_MECHANISM}; of passwd and delete: " if has_password else "")
            + "all that the user has)",
        )
    if has_password:
        command.add_argument(
            "--password-file",
            type=Path,
            metavar="FILE",
            help="file with the password, `-` for standard input; without it the terminal is asked",
        )
        command.add_argument(
            "--iterations",
            type=int,
            default=ITERATIONS,
            metavar="N",
            help=f"of the derivation of keys, {ITERATIONS_MIN} to {ITERATIONS_MAX} (default:"
            f" {ITERATIONS})",
        )
    add_place(command)


def _place(parsed: argparse.Namespace) -> Place:
    from broker.model.config import Config  # noqa: PLC0415 - not needed by `--help`

    place = place_of(parsed)
    if isinstance(place, Config):
        return _Stopped(place, is_new=parsed.command == "create")
    return _Running(place)


def _existing(
    user: str, named: Sequence[ScramMechanism], known: Sequence[ScramMechanism]
) -> Sequence[ScramMechanism]:
    missing = [each for each in named if each not in known]
    if missing or not known:
        raise ConfigError(
            f"there is no user {user}" + (f" with {_names(missing)}" if known else "")
        )
    return named or known


def _names(mechanisms: Sequence[ScramMechanism]) -> str:
    return ", ".join(each.name for each in mechanisms)


def _password(file: Path | None) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise ConfigError(
                "there is no terminal: name the password's file, --password-file FILE"
            )
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise ConfigError("the two passwords differ")
    elif str(file) == "-":
        password = sys.stdin.readline(PASSWORD_FILE_BYTES_MAX).rstrip("\r\n")
    else:
        password = _first_line(file)
    if not password:
        raise ConfigError("the password is empty")
    return password


def _first_line(file: Path) -> str:
    """Return the first line of a file or pipe, which is read once: who else can read it is told."""
    try:
        check_secret_file(file, "--password-file")
    except ConfigError as error:
        print(f"broker: {error}", file=sys.stderr)
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.readline(PASSWORD_FILE_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--password-file={file}: it cannot be read: {error}") from None

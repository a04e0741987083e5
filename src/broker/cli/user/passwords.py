"""The options of a new password: where it is read, and how keys are derived from it."""

import getpass
import sys
from pathlib import Path
from typing import Final, NamedTuple

import click

from broker.cli.frame import gathered
from broker.cli.reporting import print_error
from broker.model.errors import ConfigError
from broker.model.sasl_limits import PASSWORD_FILE_BYTES_MAX
from broker.model.scram import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN
from broker.model.secret_file import check_secret_file


class NewPassword(NamedTuple):
    """The options of a new password."""

    password_file: Path | None
    iterations: int

    def read(self) -> str:
        """Read it; ConfigError if there is none."""
        return _password(self.password_file)


password_options: Final = gathered(
    "new",
    NewPassword,
    (
        click.option(
            "--password-file",
            type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
            metavar="FILE",
            help="File with the password, `-` for standard input; without it the terminal is"
            " asked.",
        ),
        click.option(
            "--iterations",
            type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
            default=ITERATIONS,
            metavar="N",
            help=f"Of the derivation of keys, {ITERATIONS_MIN} to {ITERATIONS_MAX} (default:"
            f" {ITERATIONS}).",
        ),
    ),
)


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
        print_error(error)
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.readline(PASSWORD_FILE_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--password-file={file}: it cannot be read: {error}") from None

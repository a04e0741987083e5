"""Where commands find what a broker stores: in a stopped one's data directory, or at a running one.

Both are options of the same command: a first user exists before the broker has started.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import click
from click.core import ParameterSource

from broker.cli.frame import Session, gathered
from broker.model.errors import TimedOut, Unreachable

if TYPE_CHECKING:
    from broker.client.metadata import Cluster
    from broker.model.config import Config

    Place: TypeAlias = Config | Cluster


class Stopped(NamedTuple):
    """The options that say which stopped broker is meant; none: a running one is."""

    config: Path | None
    data_dir: str | None
    settings: tuple[str, ...]

    def configuration(self) -> "Config":
        """Return its configuration; ConfigError if that is invalid."""
        from broker.cli.start import configuration  # noqa: PLC0415 - not needed by `--help`

        return configuration(self.config, self.data_dir, None, self.settings)

    def words(self) -> list[str]:
        """Return the options again, without the values of settings: they may be passwords."""
        words = [] if self.data_dir is None else ["--data-dir", self.data_dir]
        words += [] if self.config is None else ["--config", str(self.config)]
        for each in self.settings:
            words += ["--set", f"{each.partition('=')[0]}=..."]
        return words


stopped_options: Final = gathered(
    "stopped",
    Stopped,
    (
        click.option("--data-dir", metavar="DIR", help="Data directory of a stopped broker."),
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Settings of a stopped broker, as for start.",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set one of them; may be repeated.",
        ),
    ),
)


def place_of(session: Session, stopped: Stopped) -> "Place":
    """Return the configuration of the stopped broker, or the cluster of running ones."""
    if not any(stopped):
        try:
            return session.cluster
        except TimedOut:
            raise
        except Unreachable as error:
            raise Unreachable(f"{error}, or a stopped one by its --data-dir") from None
    context = click.get_current_context()
    if context.get_parameter_source("bootstrap_server") is ParameterSource.COMMANDLINE:
        raise click.UsageError("name a running broker, or the --data-dir of a stopped one")
    return stopped.configuration()

"""`broker doctor`."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from broker.cli.checks import PROBLEM, Check, has_problem, sorted_checks
from broker.cli.exit_codes import Exit
from broker.cli.frame import Session, verb
from broker.model.errors import ConfigError, PolylogError


@verb(
    Check,
    name="doctor",
    columns=("check", "severity", "subject", "reason", "fix"),
    examples=(
        "broker doctor",
        "broker doctor --config polylog.toml --offline",
        "broker doctor --data-dir data -o json",
    ),
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Look at this configuration, TOML or Kafka's properties: keys, certificates, ports.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Look at this data directory instead of that of the configuration.",
)
@click.option("--offline", is_flag=True, help="Ask no broker.")
def command(session: Session, config: Path | None, data_dir: Path | None, offline: bool) -> None:
    """Look for what keeps a broker from starting or from being reached; exit code 8 if so.

    It looks at versions, limits of files, the lines of the configuration, keys and certificates,
    ports, the data directory with its disk, the time of an fsync and the steps of the clock; and,
    unless --offline, at the health of brokers and whether the addresses that clients get answer.
    """
    found = sorted_checks(chain(_local(config, data_dir), () if offline else _of_brokers(session)))
    for each in found:
        session.write(each)
    if has_problem(found):
        session.exit_code = Exit.UNHEALTHY


def _local(file: Path | None, data_dir: Path | None) -> Iterator[Check]:
    from broker.cli.doctor.machine import machine_checks  # noqa: PLC0415 - not for --help

    yield from machine_checks()
    if file is not None:
        from broker.cli.doctor.configuration import file_checks  # noqa: PLC0415

        if not file.exists():
            yield Check("config", PROBLEM, str(file), "there is no such file", "correct its name")
            return
        found = list(file_checks(file))
        yield from found
        if has_problem(found):
            return  # it cannot be read as a whole, so that the rest would be about other values
    yield from _configured(file, data_dir)


def _configured(file: Path | None, data_dir: Path | None) -> Iterator[Check]:
    from broker.cli.doctor import configuration  # noqa: PLC0415 - not for --help
    from broker.cli.doctor.directory import directory_checks  # noqa: PLC0415
    from broker.cli.start import configuration as read  # noqa: PLC0415

    try:
        config = read(file, None if data_dir is None else str(data_dir), None, [])
    except ConfigError as error:
        fix = "`broker config explain NAME` explains a setting"
        yield Check("config", PROBLEM, "" if file is None else str(file), str(error), fix)
        return
    if file is not None:
        yield from configuration.key_checks(config)
        yield from configuration.address_checks(config)
    if file is not None or data_dir is not None or config.data_dir.exists():
        yield from directory_checks(
            config.data_dir,
            None if file is None else config.integer("node.id"),
            config.integer("polylog.clock.confirmed.ms"),
        )


def _of_brokers(session: Session) -> Iterator[Check]:
    from broker.cli.doctor.brokers import broker_checks  # noqa: PLC0415 - not for --help

    try:
        yield from broker_checks(session.cluster)
    except PolylogError as error:
        yield Check(
            "broker",
            PROBLEM,
            "",
            str(error),
            "start it, name its address with -b, or look at this machine alone with --offline",
        )

"""`broker debug bundle`."""

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from broker.cli.debug import parts
from broker.cli.frame import Session, verb
from broker.cli.progress import progress
from broker.model.clock import SystemClock
from broker.model.errors import ConfigError, PolylogError

BUNDLE_BYTES_MAX: Final = 64 << 20  # before it is compressed; a part that does not fit is left out


class Bundle(NamedTuple):
    """The file.

    Attributes:
        file: its path.
        size_bytes: of the file.
        parts: the names of what it has.
        missing: why other parts are not in it.
    """

    file: str
    size_bytes: int
    parts: list[str]
    missing: dict[str, str]


@verb(
    Bundle,
    is_single=True,
    columns=("file", "size_bytes", "missing"),
    examples=(
        "broker debug bundle",
        "broker debug bundle --data-dir data --config broker.toml --log broker.log",
        "broker debug bundle --offline --data-dir data",
    ),
)
@click.option(
    "--file",
    "-f",
    type=click.Path(path_type=Path),
    help="Where it is written (default: polylog-debug-TIME.tar.gz); it must not exist.",
)
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Data directory, of which the names and sizes of files are listed.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file, without its secrets.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of the broker's log, of which the last MiB is taken; may be repeated.",
)
@click.option("--offline", is_flag=True, help="Ask no broker.")
def command(
    session: Session,
    file: Path | None,
    data_dir: Path | None,
    config: Path | None,
    logs: tuple[Path, ...],
    offline: bool,
) -> None:
    """Write a file for whoever is asked for help: settings, states, metrics, limits, no secrets.

    It has names of topics, groups, hosts and files, but no record and no password. Look at it
    before you send it: tar tzf FILE.
    """
    now_ms = SystemClock().wall_ms()
    place = file or Path(f"polylog-debug-{now_ms // 1000}.tar.gz")
    errors: dict[str, str] = {}
    written: list[str] = []
    left = BUNDLE_BYTES_MAX
    with _created(place) as archive, progress("bundle", unit="parts") as shown:
        for name, content in _contents(session, data_dir, config, logs, offline, errors):
            if len(content) > left:
                errors[name] = f"{len(content)} bytes do not fit"
                continue
            left -= len(content)
            _add(archive, name, content, now_ms)
            written.append(name)
            shown.add(1, len(content))
        if errors:
            _add(archive, "missing.json", parts.as_json(errors), now_ms)
    session.write(Bundle(str(place), place.stat().st_size, written, errors))


def _contents(
    session: Session,
    data_dir: Path | None,
    config: Path | None,
    logs: tuple[Path, ...],
    offline: bool,
    errors: dict[str, str],
) -> Iterator[tuple[str, bytes]]:
    yield from parts.gathered(parts.of_machine(_read), errors)
    yield from parts.gathered(_of_files(data_dir, config, logs), errors)
    if offline:
        errors["cluster"] = "not asked: --offline"
        return
    try:
        cluster = session.cluster
    except PolylogError as error:
        errors["cluster"] = str(error)
        return
    yield from parts.gathered(parts.of_cluster(cluster), errors)


def _of_files(
    data_dir: Path | None, config: Path | None, logs: tuple[Path, ...]
) -> Iterator[tuple[str, parts.Part]]:
    yield "config.json", lambda: _config(config, data_dir)
    if data_dir is not None:
        yield "data-dir.txt", lambda: parts.of_data_dir(data_dir)
    for number, log in enumerate(logs):
        yield f"logs/{number}-{log.name}", lambda log=log: _read(log, -parts.LOG_BYTES_MAX)  # type: ignore[misc]


def _config(file: Path | None, data_dir: Path | None) -> bytes:
    from broker.cli import start  # noqa: PLC0415 - imports the broker

    return parts.of_config(start.configuration(file, str(data_dir) if data_dir else None, None, []))


def _read(file: Path, size: int) -> bytes:
    """Return the first bytes of a file, or the last ones if the number is negative."""
    with file.open("rb") as opened:
        if size < 0:
            opened.seek(max(os.fstat(opened.fileno()).st_size + size, 0))
        return opened.read(abs(size))


@contextmanager
def _created(place: Path) -> Iterator[tarfile.TarFile]:
    """Create the archive, which only its owner may read."""
    try:
        opened = open(place, "xb", opener=_only_for_its_owner)  # noqa: SIM115 - it has one
    except OSError as error:
        raise ConfigError(f"--file {place}: {error.strerror}") from None
    with opened, tarfile.open(fileobj=opened, mode="w:gz") as archive:
        yield archive


def _only_for_its_owner(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)  # noqa: TID251 - a file of the user


def _add(archive: tarfile.TarFile, name: str, content: bytes, now_ms: int) -> None:
    member = tarfile.TarInfo(f"polylog-debug/{name.lstrip('/')}")
    member.size, member.mtime, member.mode = len(content), now_ms // 1000, 0o600
    archive.addfile(member, io.BytesIO(content))

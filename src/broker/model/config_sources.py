"""The sources of settings at a start: the command line, the environment, files.

A later source precedes an earlier one: Kafka's properties, a TOML file, the environment of Kafka's
container images, our own environment, the command line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from broker.model.errors import ConfigError
from broker.model.given import (
    COMMAND_VARIABLES,
    HINTS_MAX,
    Given,
    environment_name,
    nearest_name,
)
from broker.model.settings import BROKER_SETTINGS

COMMAND_LINE = "command line"
_ENVIRONMENT_PREFIX = "BROKER_"
_KAFKA_PREFIX = "KAFKA_"
# Kubernetes sets these in every container if a service is called "broker" or "kafka".
_SERVICE_LINK = re.compile(r"[A-Z]+_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP)\w*)?)")
# The same of services whose names have several words. Some settings end as they do.
_LONG_SERVICE_LINK = re.compile(r"[A-Z0-9_]+_(SERVICE_(HOST|PORT\w*)|PORT_\d+_(TCP|UDP)\w*)")
_LINK_TARGETS = ("tcp://", "udp://", "sctp://")  # what Kubernetes has in BROKER_SOMETHING_PORT
_TOML_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_TOML_KEY = re.compile(r"\s*([\w.\"'\s-]+?)\s*=")


class Sources(NamedTuple):
    """What was given at the start.

    Attributes:
        given: in ascending precedence.
        faults: errors of what could not be read.
        ignored: variables of Kafka's images that are no settings.
        replaced: what a later line of the same file gives again.
    """

    given: list[Given]
    faults: list[str]
    ignored: list[str]
    replaced: list[Given]


def given_texts(
    overrides: Iterable[str],
    environment: Mapping[str, str],
    file: Path | None,
    kafka_properties: Path | None = None,
) -> Sources:
    """Read all sources."""
    faults: list[str] = []
    ignored: list[str] = []
    replaced: list[Given] = []
    given: list[Given] = []
    for each, has_properties in ((kafka_properties, True), (file, _is_properties(file))):
        in_file: dict[str, Given] = {}
        for found in _from_file(each, faults, is_properties=has_properties):
            if found.name in in_file:
                replaced.append(in_file[found.name])
            in_file[found.name] = found
        given += in_file.values()
    of_command: list[str] = []
    in_command = list(_from_overrides(overrides, of_command))
    of_kafka = {
        variable: text
        for variable, text in environment.items()
        if variable.startswith(_KAFKA_PREFIX) and not _SERVICE_LINK.fullmatch(variable)
    }
    if of_kafka:
        # Rarely needed:
        from broker.model.image_files import logins_in_file  # noqa: PLC0415
        from broker.model.image_users import logins_of_users  # noqa: PLC0415
        from broker.model.kafka_environment import read_variables  # noqa: PLC0415

        has_listeners = any(each.name == "listeners" for each in (*given, *in_command))
        given += read_variables(of_kafka, faults, ignored, has_listeners=has_listeners)
        known = [*given, *in_command]
        given = logins_in_file(of_kafka, known, faults) + given
        given = logins_of_users(of_kafka, known, faults, ignored) + given
    given += _from_environment(environment, faults)
    return Sources([*given, *in_command], [*faults, *of_command], ignored, replaced)


def _is_properties(file: Path | None) -> bool:
    """Whether a file has Kafka's format: its name says so."""
    return file is not None and file.suffix == ".properties"


def is_from(origin: str, place: str) -> bool:
    """Whether a value with this origin was given on the command line, or in a file."""
    return origin == place or origin.startswith(f"{place}:")


def _from_overrides(overrides: Iterable[str], faults: list[str]) -> Iterator[Given]:
    for override in overrides:
        name, equals, text = override.partition("=")
        if equals:
            yield Given(name.strip(), text, COMMAND_LINE)
        else:
            # Without what does not look like a name: it may be a password.
            name = re.sub(r"[^\w.].*", "...", override, flags=re.DOTALL)
            faults.append(f"--set {name}: expected NAME=VALUE")


def _from_environment(environment: Mapping[str, str], faults: list[str]) -> Iterator[Given]:
    names = {environment_name(_ENVIRONMENT_PREFIX, name): name for name in BROKER_SETTINGS}
    for variable, text in environment.items():
        if not variable.startswith(_ENVIRONMENT_PREFIX) or variable in COMMAND_VARIABLES:
            continue
        if _SERVICE_LINK.fullmatch(variable):
            continue
        if variable not in names:
            from broker.model.unused_settings import accepted_names  # noqa: PLC0415 - 290 names

            more = accepted_names()
            names = {environment_name(_ENVIRONMENT_PREFIX, name): name for name in more}
        if variable in names:
            yield Given(names[variable], text, f"environment {variable}")
        elif not _is_long_service_link(variable, text):
            hint = nearest_name(variable, names) if len(faults) < HINTS_MAX else ""
            faults.append(f"environment: {variable} is not a setting{hint}")


def _is_long_service_link(variable: str, text: str) -> bool:
    return bool(_LONG_SERVICE_LINK.fullmatch(variable)) or (
        variable.endswith("_PORT") and text.startswith(_LINK_TARGETS)
    )


def _from_file(file: Path | None, faults: list[str], *, is_properties: bool) -> Iterable[Given]:
    if file is None:
        return ()
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        faults.append(f"cannot read {file}: {error.strerror}")
        return ()
    except UnicodeDecodeError:
        faults.append(f"{file} is not UTF-8 text")
        return ()
    return (_from_properties if is_properties else _from_toml)(text, file, faults)


def _from_properties(text: str, file: Path, faults: list[str]) -> Iterable[Given]:
    from broker.model.properties import read_properties  # noqa: PLC0415 - most starts need none

    try:
        found = read_properties(text)
    except ConfigError as error:
        faults.append(f"{file}:{error}")
        return ()
    return [Given(each.name, each.text, f"{file}:{each.line}") for each in found]


def _from_toml(text: str, file: Path, faults: list[str]) -> Iterable[Given]:
    import tomllib  # noqa: PLC0415 - most starts have no file; its import costs 20 ms

    try:
        tables = tomllib.loads(text)
    except ValueError as error:
        faults.append(f"{file} is not TOML: {error}")
        return ()
    lines = _toml_lines(text)
    return [
        Given(name, text, f"{file}:{lines[name]}" if name in lines else str(file))
        for name, text in _flatten("", tables)
    ]


def _toml_lines(text: str) -> dict[str, int]:
    """Return the line of each key; those of inline tables and in strings of several lines lack."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TOML_TABLE.match(line):
            table = _joined(found[1]) + "."
        elif found := _TOML_KEY.match(line):
            lines.setdefault(table + _joined(found[1]), number)
    return lines


def _joined(key: str) -> str:
    """Return a dotted key without quotes and blanks."""
    return re.sub(r"[\"'\s]", "", key)


def _flatten(prefix: str, value: object) -> Iterable[tuple[str, str]]:
    """Join nested tables to names: TOML parses num.partitions as a table in a table."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flatten(f"{prefix}.{name}" if prefix else str(name), inner)
    elif isinstance(value, bool):
        yield prefix, "true" if value else "false"
    elif isinstance(value, list):
        yield prefix, ",".join(map(str, value))
    else:
        yield prefix, str(value)

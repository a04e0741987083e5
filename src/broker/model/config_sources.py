"""The sources of settings at a start: the command line, the environment, a TOML file."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from broker.model.settings import BROKER_SETTINGS

COMMAND_LINE = "command line"
_ENVIRONMENT_PREFIX = "BROKER_"
# Kubernetes sets these in every container if a service is called "broker".
_SERVICE_LINK = re.compile(r"BROKER_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP)\w*)?)")


class Given(NamedTuple):
    """A value as text, and where it was given."""

    name: str
    text: str
    origin: str


def given_texts(
    overrides: Iterable[str], environment: Mapping[str, str], file: Path | None
) -> tuple[list[Given], list[str]]:
    """Return the given values in ascending precedence, and the errors of the others."""
    faults: list[str] = []
    in_file = list(_from_file(file, faults))
    in_environment = list(_from_environment(environment, faults))
    in_command = list(_from_overrides(overrides, faults))
    return [*in_file, *in_environment, *in_command], faults


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return the part of an error message that suggests a name, or nothing."""
    import difflib  # noqa: PLC0415 - only for mistakes; its import costs a start 3 ms

    matches = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


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
    names = {_environment_name(name): name for name in BROKER_SETTINGS}
    for variable, text in environment.items():
        if not variable.startswith(_ENVIRONMENT_PREFIX) or _SERVICE_LINK.fullmatch(variable):
            continue
        if variable in names:
            yield Given(names[variable], text, f"environment {variable}")
        else:
            hint = nearest_name(variable, names)
            faults.append(f"environment: {variable} is not a setting{hint}")


def _environment_name(name: str) -> str:
    return _ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def _from_file(file: Path | None, faults: list[str]) -> Iterator[Given]:
    if file is None:
        return
    import tomllib  # noqa: PLC0415 - most starts have no file; its import costs 20 ms

    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        faults.append(f"cannot read {file}: {error.strerror}")
    except ValueError as error:
        faults.append(f"{file} is not TOML: {error}")
    else:
        for name, text in _flatten("", tables):
            yield Given(name, text, str(file))


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

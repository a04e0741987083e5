"""A setting that was given at the start, and the names of settings in other forms."""

from collections.abc import Iterable
from typing import Final, NamedTuple

# Variables of commands that are clients of a broker: their options, by the variable. A broker may
# have the same environment, and they are no settings of it.
COMMAND_VARIABLES: Final = {
    "BROKER_BOOTSTRAP_SERVER": "--bootstrap-server",
    "BROKER_COMMAND_CONFIG": "--command-config",
    "BROKER_PROFILE": "--profile",
}
# To find the nearest of all names takes some milliseconds: a file with many thousands of wrong
# names is not a file of settings, and no hint helps.
HINTS_MAX: Final = 100
_MATCHES = 0.6  # difflib's default


class Given(NamedTuple):
    """A value as text, and where it was given."""

    name: str
    text: str
    origin: str


def nearest_name(
    name: str, names: Iterable[str], *, before: str = "", cutoff: float = _MATCHES
) -> str:
    """Return the part of an error message that suggests a name, or nothing."""
    import difflib  # noqa: PLC0415 - only for mistakes; its import costs a start 3 ms

    matches = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    return f"; did you mean {before}{matches[0]}?" if matches else ""


def environment_name(prefix: str, name: str) -> str:
    """Return the variable of a setting."""
    return prefix + name.upper().replace(".", "_")

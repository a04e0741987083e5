"""What the verbs of profiles print."""

from typing import NamedTuple

from broker.cli.profiles import Profile, Profiles
from broker.model.errors import ErrorCode, RequestError


class ProfileRow(NamedTuple):
    """A profile.

    Attributes:
        profile: its name.
        is_current: whether commands use it when none is named.
        bootstrap_server: addresses of brokers.
        command_config: file of client settings; null: without.
    """

    profile: str
    is_current: bool
    bootstrap_server: str
    command_config: str | None


def row(name: str, profile: Profile, current: str | None) -> ProfileRow:
    """Return the row of a profile."""
    return ProfileRow(name, name == current, profile.bootstrap_server, profile.command_config)


def profile_of(known: Profiles, name: str) -> Profile:
    """Return the profile of a name; RequestError if it does not exist."""
    if name not in known.profiles:
        raise RequestError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"there is no profile {name!r}: `broker profile list` shows those that exist",
        )
    return known.profiles[name]

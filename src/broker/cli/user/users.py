"""Users: their rows, the options that all verbs have, and where users are kept."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import click

from broker.cli.completion import user_names
from broker.cli.frame import Session, gathered
from broker.cli.places import Stopped, place_of
from broker.model.errors import ErrorCode, RequestError
from broker.model.scram import MECHANISMS, ScramMechanism

if TYPE_CHECKING:
    from broker.client.metadata import Cluster
    from broker.model.config import Config


class UserRow(NamedTuple):
    """A user.

    Attributes:
        user: the name.
        mechanisms: with which the user logs in, or that were changed.
        iterations: of the derivation of keys, for each of these; null if there is nothing there.
        status: there, created, changed, deleted, or would_be_created, and so on.
    """

    user: str
    mechanisms: tuple[str, ...]
    iterations: tuple[int | None, ...]
    status: str


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


class _OfStopped:
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


class _OfRunning:
    def __init__(self, cluster: "Cluster") -> None:
        from broker.client import users  # noqa: PLC0415 - not needed by `--help`

        self._cluster = cluster
        self._users = users

    def mechanisms(self) -> dict[str, list[tuple[ScramMechanism, int]]]:
        return self._users.credentials(self._cluster)

    def set_password(
        self, user: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> None:
        self._users.set_password(self._cluster, user, password, mechanisms, iterations)

    def delete(self, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
        self._users.delete(self._cluster, user, mechanisms)


def place(session: Session, stopped: Stopped, *, is_new: bool = False) -> Place:
    """Return where the users are; with `is_new` a data directory may not exist yet."""
    from broker.model.config import Config  # noqa: PLC0415 - not needed by `--help`

    found = place_of(session, stopped)
    return _OfStopped(found, is_new=is_new) if isinstance(found, Config) else _OfRunning(found)


class Named(NamedTuple):
    """The options that name a user who exists."""

    name: str
    mechanisms: tuple[str, ...]

    def found(self, where: Place) -> Sequence[tuple[ScramMechanism, int]]:
        """Return the mechanisms of the user, all or the named ones; RequestError without them."""
        known = dict(where.mechanisms().get(self.name, []))
        missing = [each for each in self.mechanisms if MECHANISMS[each] not in known]
        if missing or not known:
            raise RequestError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"there is no user {self.name}"
                + (f" with {', '.join(missing)}" if known else "")
                + ": `broker user list` shows those that exist",
            )
        return [
            (each, count)
            for each, count in known.items()
            if not self.mechanisms or each.name in self.mechanisms
        ]


def row(user: str, mechanisms: Sequence[tuple[ScramMechanism, int | None]], status: str) -> UserRow:
    """Return the row of a user."""
    return UserRow(
        user, tuple(each.name for each, _ in mechanisms), tuple(n for _, n in mechanisms), status
    )


def mechanism_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds --mechanism."""
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice(tuple(MECHANISMS)),
        help=f"May be repeated (default: {default}).",
    )


named_options: Final = gathered(
    "named",
    Named,
    (
        click.argument("name", shell_complete=user_names),
        mechanism_option("all that the user has"),
    ),
)

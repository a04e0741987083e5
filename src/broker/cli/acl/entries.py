"""Entries: the options that describe them, and where they are kept."""

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import click

from broker.cli.completion import groups, topics
from broker.cli.frame import Session, gathered
from broker.cli.places import Stopped, place_of
from broker.core.security.acls import (
    ANYWHERE,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from broker.model.principal import parse_principal

if TYPE_CHECKING:
    from broker.client.acls import Entry
    from broker.client.metadata import Cluster
    from broker.model.config import Config

_PRODUCE, _CONSUME, _CREATE = "produce", "consume", "create"
# What a resource needs to be allowed, by what is done with it; Describe comes with all of these.
_NEEDS = {
    (ResourceType.TOPIC, _PRODUCE): Operation.WRITE,
    (ResourceType.TOPIC, _CONSUME): Operation.READ,
    (ResourceType.GROUP, _CONSUME): Operation.READ,
    (ResourceType.TRANSACTIONAL_ID, _PRODUCE): Operation.WRITE,
    (ResourceType.TOPIC, _CREATE): Operation.CREATE,
}


class AclRow(NamedTuple):
    """An entry.

    Attributes:
        entry: all of it in one line.
        principal: who.
        permission: Allow or Deny.
        operation: what.
        resource_type: Topic, Group, ...
        resource: its name, or the beginning of names.
        pattern_type: LITERAL, or PREFIXED for a beginning.
        host: from where; * is anywhere.
        status: there, allowed, would_be_allowed, removed, would_be_removed or absent.
    """

    entry: str
    principal: str
    permission: str
    operation: str
    resource_type: str
    resource: str
    pattern_type: str
    host: str
    status: str


COLUMNS = ("principal", "permission", "operation", "resource_type", "resource", "pattern_type")


def row(acl: Acl, status: str) -> AclRow:
    """Return the row of an entry."""
    (kind, name, pattern_type), principal, host, operation, permission = acl
    return AclRow(
        str(acl),
        principal,
        permission.title,
        operation.title,
        kind.title,
        name,
        pattern_type.name,
        host,
        status,
    )


class Place(Protocol):
    """Where entries are: in a stopped broker's data directory, or at a running broker."""

    def entries(self) -> list[Acl]:
        """Return all entries."""

    def create(self, acls: Sequence[Acl]) -> set[Acl]:
        """Create entries; return all that there were before."""

    def delete(self, acls: Sequence[Acl]) -> int:
        """Delete entries; return how many there were."""


class _OfStopped:
    def __init__(self, config: "Config") -> None:
        from broker.server import offline_acls  # noqa: PLC0415 - not needed by `--help`

        self._config = config
        self._acls = offline_acls

    def entries(self) -> list[Acl]:
        return self._acls.entries(self._config)

    def create(self, acls: Sequence[Acl]) -> set[Acl]:
        return set(self._acls.create(self._config, acls))

    def delete(self, acls: Sequence[Acl]) -> int:
        return self._acls.delete(self._config, acls)


class _OfRunning:
    def __init__(self, cluster: "Cluster") -> None:
        from broker.client import acls  # noqa: PLC0415 - not needed by `--help`

        self._cluster = cluster
        self._acls = acls

    def entries(self) -> list[Acl]:
        found = self._acls.entries(self._cluster)
        return [
            Acl(
                Pattern(
                    ResourceType(each.resource_type),
                    each.resource_name,
                    PatternType(each.pattern_type),
                ),
                each.principal,
                each.host,
                Operation(each.operation),
                Permission(each.permission),
            )
            for each in found
        ]

    def create(self, acls: Sequence[Acl]) -> set[Acl]:
        before = set(self.entries())
        self._acls.create(self._cluster, [self._entry(each) for each in acls])
        return before

    def delete(self, acls: Sequence[Acl]) -> int:
        return self._acls.delete(self._cluster, [self._entry(each) for each in acls])

    def _entry(self, acl: Acl) -> "Entry":
        (kind, name, pattern_type), principal, host, operation, permission = acl
        return self._acls.Entry(
            int(kind), name, int(pattern_type), principal, host, int(operation), int(permission)
        )


def place(session: Session, stopped: Stopped) -> Place:
    """Return where the entries are."""
    from broker.model.config import Config  # noqa: PLC0415 - not needed by `--help`

    found = place_of(session, stopped)
    return _OfStopped(found) if isinstance(found, Config) else _OfRunning(found)


class Wanted(NamedTuple):
    """The options that describe entries, as they were given."""

    principal: str
    topic: tuple[str, ...]
    group: tuple[str, ...]
    transactional_id: tuple[str, ...]
    prefixed: bool
    only: str | None
    create: bool

    def acls(self) -> list[Acl]:
        """Return the entries; a usage error if they are none, ConfigError for the principal."""
        found = list(self._acls())
        if not found:
            raise click.UsageError("name a --topic, a --group or a --transactional-id")
        return found

    def _acls(self) -> Iterator[Acl]:
        principal = str(parse_principal(self.principal))
        pattern_type = PatternType.PREFIXED if self.prefixed else PatternType.LITERAL
        names = {
            ResourceType.TOPIC: self.topic,
            ResourceType.GROUP: self.group,
            ResourceType.TRANSACTIONAL_ID: self.transactional_id,
        }
        uses = {_PRODUCE, _CONSUME} if self.only is None else {self.only}
        uses |= {_CREATE} if self.create else set()
        for (kind, use), operation in _NEEDS.items():
            if use in uses:
                for name in names[kind]:
                    pattern = Pattern(kind, name, pattern_type)
                    yield Acl(pattern, principal, ANYWHERE, operation, Permission.ALLOW)

    def command(self, verb: str, stopped: Stopped) -> str:
        """Return the command line of another verb for the same entries at the same place."""
        words = ["broker", "acl", verb, self.principal]
        for name in ("topic", "group", "transactional_id"):
            for each in getattr(self, name):
                words += [f"--{name.replace('_', '-')}", each]
        words += ["--prefixed"] if self.prefixed else []
        words += ["--only", self.only] if self.only else []
        words += ["--create"] if self.create else []
        return shlex.join([*words, *stopped.words()])


entry_options: Final = gathered(
    "wanted",
    Wanted,
    (
        click.argument("principal"),
        click.option(
            "--topic",
            multiple=True,
            metavar="NAME",
            shell_complete=topics,
            help="May be repeated.",
        ),
        click.option(
            "--group",
            multiple=True,
            metavar="NAME",
            shell_complete=groups,
            help="May be repeated.",
        ),
        click.option("--transactional-id", multiple=True, metavar="NAME", help="May be repeated."),
        click.option(
            "--prefixed",
            is_flag=True,
            help="The names are the beginnings of those that are allowed.",
        ),
        click.option(
            "--only",
            type=click.Choice((_PRODUCE, _CONSUME)),
            help="Only this (default: both of them).",
        ),
        click.option("--create", is_flag=True, help="The topics may be created, too."),
    ),
)

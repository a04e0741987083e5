"""`broker acl`: what principals may do, at a stopped broker or at a running one.

It has what most clients need. Kafka's own kafka-acls.sh has the rest: denials, hosts, filters.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.cli.places import add_place, place_of
from broker.cli.reporting import Parser
from broker.core.security.acls import (
    ANYWHERE,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from broker.model.errors import ConfigError
from broker.model.principal import parse_principal

if TYPE_CHECKING:
    from broker.client.acls import Entry
    from broker.client.connection import Client
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


class Place(Protocol):
    """Where entries are: in a stopped broker's data directory, or at a running broker."""

    def entries(self) -> list[Acl]:
        """Return all entries."""

    def create(self, acls: Sequence[Acl]) -> None:
        """Create entries."""

    def delete(self, acls: Sequence[Acl]) -> int:
        """Delete entries; return how many there were."""


class _Stopped:
    def __init__(self, config: "Config") -> None:
        from broker.server import offline_acls  # noqa: PLC0415 - not needed by `--help`

        self._config = config
        self._acls = offline_acls

    def entries(self) -> list[Acl]:
        return self._acls.entries(self._config)

    def create(self, acls: Sequence[Acl]) -> None:
        self._acls.create(self._config, acls)

    def delete(self, acls: Sequence[Acl]) -> int:
        return self._acls.delete(self._config, acls)


class _Running:
    def __init__(self, client: "Client") -> None:
        from broker.client import acls  # noqa: PLC0415 - not needed by `--help`

        self._client = client
        self._acls = acls

    def entries(self) -> list[Acl]:
        found = self._acls.entries(self._client)
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

    def create(self, acls: Sequence[Acl]) -> None:
        self._acls.create(self._client, [self._entry(each) for each in acls])

    def delete(self, acls: Sequence[Acl]) -> int:
        return self._acls.delete(self._client, [self._entry(each) for each in acls])

    def _entry(self, acl: Acl) -> "Entry":
        (kind, name, pattern_type), principal, host, operation, permission = acl
        return self._acls.Entry(
            int(kind), name, int(pattern_type), principal, host, int(operation), int(permission)
        )


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    parser = Parser(prog="broker acl")
    commands = parser.add_commands()
    allow = commands.add_parser(
        "allow",
        help="let a principal use topics, groups and transactional ids",
        description="Let a principal write to and read from topics, as members of groups and in"
        " transactions. With --data-dir the broker must be stopped; its data directory may not"
        " exist yet.",
    )
    remove = commands.add_parser(
        "remove",
        help="take back what `allow` has allowed",
        description="Remove the entries that `broker acl allow` with the same options makes.",
    )
    for command in (allow, remove):
        _add_entries(command)
    for command in (allow, remove, commands.add_parser("list", help="list all entries")):
        add_place(command)
    parsed = parser.parse_args(arguments)
    if parsed.command == "list":
        for acl in sorted(_place(parsed).entries()):
            print(acl)
        return 0
    acls = list(_acls(parsed))
    if not acls:
        raise ConfigError("name a --topic, a --group or a --transactional-id")
    if parsed.command == "allow":
        _place(parsed).create(acls)
        for acl in acls:
            print(acl)
    else:
        print(f"removed {_place(parsed).delete(acls)} entries")
    return 0


def _add_entries(command: Parser) -> None:
    command.add_argument("principal", metavar="PRINCIPAL", help="such as User:alice")
    for name in ("topic", "group", "transactional-id"):
        command.add_argument(
            f"--{name}", action="append", default=[], metavar="NAME", help="may be repeated"
        )
    command.add_argument(
        "--prefixed",
        action="store_true",
        help="the names are the beginnings of those that are allowed",
    )
    command.add_argument(
        "--only", choices=(_PRODUCE, _CONSUME), help="only this (default: both of them)"
    )
    command.add_argument("--create", action="store_true", help="the topics may be created, too")


def _acls(parsed: argparse.Namespace) -> Iterator[Acl]:
    """Yield the entries that options describe."""
    principal = str(parse_principal(parsed.principal))
    pattern_type = PatternType.PREFIXED if parsed.prefixed else PatternType.LITERAL
    names = {
        ResourceType.TOPIC: parsed.topic,
        ResourceType.GROUP: parsed.group,
        ResourceType.TRANSACTIONAL_ID: parsed.transactional_id,
    }
    uses = {_PRODUCE, _CONSUME} if parsed.only is None else {parsed.only}
    uses |= {_CREATE} if parsed.create else set()
    for (kind, use), operation in _NEEDS.items():
        if use in uses:
            for name in names[kind]:
                pattern = Pattern(kind, name, pattern_type)
                yield Acl(pattern, principal, ANYWHERE, operation, Permission.ALLOW)


def _place(parsed: argparse.Namespace) -> Place:
    from broker.model.config import Config  # noqa: PLC0415 - not needed by `--help`

    place = place_of(parsed)
    return _Stopped(place) if isinstance(place, Config) else _Running(place)

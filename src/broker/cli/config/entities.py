"""What has settings: the options that name it, its settings, and their change.

Topics, brokers and groups have settings; quotas of users and client ids are shown and set in the
same way. A name on one line is KIND/NAME: topic/orders, broker/1, broker/default, group/billing,
user/alice, client-id/loader; those of a user with a client id are user/alice/client-id/loader.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from broker.cli.completion import groups, topics
from broker.cli.frame import gathered
from broker.client.brokers import live_brokers
from broker.client.configs import (
    DEFAULT,
    EVERY_BROKER,
    Kind,
    Resource,
    Setting,
    alter_configs,
    describe_configs,
    own_configs,
    with_broker_values,
)
from broker.client.quotas import alter_quotas, describe_quotas
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from broker.client.metadata import Cluster

_DEFAULT_NAME: Final = "default"
_UNIT_MS: Final = {"minutes": 60_000, "hours": 3_600_000}
ALL: Final = "all"
_KINDS: Final = {each.text: each for each in (Kind.TOPIC, Kind.BROKER, Kind.GROUP)}
_QUOTA_KINDS: Final = ("user", "client-id")


class Entity(NamedTuple):
    """A resource, or the entity of quotas."""

    resource: Resource | None
    quota: tuple[tuple[str, str | None], ...] = ()

    def __str__(self) -> str:
        """Return KIND/NAME."""
        if self.resource is None:
            return "/".join(f"{kind}/{name or _DEFAULT_NAME}" for kind, name in self.quota)
        return f"{self.resource.kind.text}/{self.resource.name or _DEFAULT_NAME}"

    @property
    def own_source(self) -> str:
        """The source of values that were set for it."""
        return "quota" if self.resource is None else self.resource.own_source

    def options(self) -> list[str]:
        """Return the options that name it on a command line."""
        words = str(self).split("/") if self.resource is None else str(self).split("/", 1)
        return [
            part
            for kind, name in zip(words[::2], words[1::2], strict=True)
            for part in (f"--{kind}", name)
        ]


class Chosen(NamedTuple):
    """What the options name."""

    topic: Sequence[str]
    broker: Sequence[str]
    group: Sequence[str]
    user: str | None
    client_id: str | None


entity_options: Final = gathered(
    "chosen",
    Chosen,
    (
        click.option(
            "--topic", multiple=True, metavar="TOPIC", shell_complete=topics, help="This topic."
        ),
        click.option(
            "--broker",
            multiple=True,
            metavar="ID",
            help="The broker with this id; default: what is set for all; all: each of them.",
        ),
        click.option(
            "--group", multiple=True, metavar="GROUP", shell_complete=groups, help="This group."
        ),
        click.option("--user", metavar="USER", help="Quotas of this user; default: of all others."),
        click.option(
            "--client-id", metavar="ID", help="Quotas of this client id; default: of all others."
        ),
    ),
)


def entities(cluster: "Cluster", chosen: Chosen) -> list[Entity]:
    """Return what the options name.

    Raises:
        ConfigError: they name nothing.
        RequestError: a topic does not exist.
    """
    found = [Entity(Resource(Kind.TOPIC, each)) for each in chosen.topic]
    if chosen.topic:
        cluster.topics(chosen.topic)
    names = list(chosen.broker)
    if ALL in names:
        names = [str(each) for each in sorted(live_brokers(cluster))]
    found += [Entity(_broker(each)) for each in names]
    found += [Entity(Resource(Kind.GROUP, each)) for each in chosen.group]
    quota = [("client-id", chosen.client_id), ("user", chosen.user)]
    parts = tuple((kind, _name(each)) for kind, each in quota if each is not None)
    if parts:
        found.append(Entity(None, parts))
    if not found:
        raise ConfigError("name a --topic, --broker, --group, --user or --client-id")
    return found


def parse_entity(text: str) -> Entity:
    """Return the entity of KIND/NAME; raise ConfigError."""
    kind, _, name = text.partition("/")
    if kind in _KINDS and name:
        return Entity(_broker(name) if kind == "broker" else Resource(_KINDS[kind], name))
    words = text.split("/")
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if len(words) == 2 * len(pairs) and all(
        each in _QUOTA_KINDS and value for each, value in pairs
    ):
        return Entity(None, tuple(sorted((each, _name(value)) for each, value in pairs)))
    kinds = ", ".join(f"{each}/NAME" for each in (*_KINDS, *_QUOTA_KINDS))
    raise ConfigError(f"{text!r}: expected one of {kinds}")


def settings(
    cluster: "Cluster",
    entity: Entity,
    names: Sequence[str] | None = None,
    *,
    with_documentation: bool = False,
) -> dict[str, Setting]:
    """Return the settings or quotas of an entity; RequestError, Unreachable, ConfigError."""
    if entity.resource is not None:
        described = describe_configs(
            cluster, entity.resource, names, with_documentation=with_documentation
        )
        if entity.resource.kind is Kind.TOPIC:
            described = with_broker_values(cluster, described)
        return described
    found = describe_quotas(cluster, dict(entity.quota))
    return {
        key: Setting(key, _number_text(value), entity.own_source, "double", False, False, "", ())
        for key, value in sorted(found.items())
        if names is None or key in names
    }


def own(cluster: "Cluster", entity: Entity) -> dict[str, str | None]:
    """Return what was set for an entity itself; None is for passwords, which no broker tells."""
    if entity.resource is not None:
        if entity.resource.kind is Kind.TOPIC:  # a broker may learn of it soon: it is asked again
            cluster.topics([entity.resource.name])
        return own_configs(cluster, entity.resource)
    return {each.name: each.value for each in settings(cluster, entity).values()}


def change(
    cluster: "Cluster", entity: Entity, changes: Mapping[str, str | None], *, dry_run: bool
) -> None:
    """Set settings of an entity, or reset those whose value is None; all or nothing.

    Raises:
        RequestError, Unreachable: as alter_configs.
        ConfigError: a quota is no number; or there is no such broker.
    """
    if entity.resource is not None:
        alter_configs(cluster, entity.resource, changes, is_only_checked=dry_run)
        return
    numbers = {key: None if value is None else _number(value) for key, value in changes.items()}
    alter_quotas(cluster, dict(entity.quota), numbers, is_only_checked=dry_run)


def default_of(setting: Setting) -> str | None:
    """Return the default of a setting; None if the broker does not tell one."""
    if setting.source == DEFAULT:
        return setting.value
    found = next((each for each in setting.synonyms if each.source == DEFAULT), None)
    if found is None or found.value is None:
        return None
    # retention.ms comes from log.retention.hours, and segment.ms from log.roll.hours.
    unit = found.name.rpartition(".")[2]
    if setting.name.endswith(".ms") and unit in _UNIT_MS and found.value.isdigit():
        return str(int(found.value) * _UNIT_MS[unit])
    return found.value


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"quotas are numbers, found {text!r:.60}")
    return number


def _number_text(number: float) -> str:
    """Return a quota as it is given: exactly, and without a fraction that is 0."""
    return f"{number:.0f}" if number.is_integer() else repr(number)


def _broker(name: str) -> Resource:
    return Resource(Kind.BROKER, EVERY_BROKER if name == _DEFAULT_NAME else name)


def _name(text: str) -> str | None:
    return None if text == _DEFAULT_NAME else text

"""`broker config explain`."""

from typing import NamedTuple

import click

from broker.cli.config.entities import Chosen, entities, entity_options, settings
from broker.cli.frame import Session, verb
from broker.model.errors import ConfigError
from broker.model.explanation import explain


class Explained(NamedTuple):
    """A setting.

    Attributes:
        name: its name.
        documentation: what it is for.
        scopes: what has such a setting: broker, topic, group, listener, mechanism.
        use: used; stored (accepted, without an effect yet); unused (only Kafka has it).
        type: of its value.
        unit: of its value; "" for none.
        allowed: the allowed values.
        default: the value without any; null: none.
        change: running (it may be changed while the broker runs), start, or never.
        origin: kafka or polylog: whose name it is.
        synonyms: settings that its value may come from, in order of precedence.
        heirs: settings of topics and groups whose broker-wide value it is.
        value: in force at what the options name; null without them.
        source: where that value was given; null without the options.
    """

    name: str
    documentation: str
    scopes: list[str]
    use: str
    type: str
    unit: str
    allowed: str
    default: str | None
    change: str
    origin: str
    synonyms: list[str]
    heirs: list[str]
    value: str | None
    source: str | None


@verb(
    Explained,
    is_single=True,
    examples=(
        "broker config explain retention.ms",
        "broker config explain retention.ms --topic orders -o json",
    ),
)
@click.argument("name", metavar="NAME")
@entity_options
def command(session: Session, name: str, chosen: Chosen) -> None:
    """Explain a setting: what it is for, its values, its default; and why it has its value.

    A broker is asked only if an option names a topic, a broker or a group.
    """
    found = explain(name)
    value = source = None
    if any(chosen):
        entity, *others = entities(session.cluster, chosen)
        if others:
            raise ConfigError("name one topic, broker, group or user: one value is explained")
        setting = settings(session.cluster, entity, [name]).get(name)
        if setting is not None:
            value, source = setting.value, setting.source
    session.write(
        Explained(
            found.name,
            found.documentation,
            list(found.scopes),
            found.use,
            found.kind,
            found.unit,
            found.allowed,
            found.default,
            found.change,
            found.origin_of_name,
            list(found.synonyms),
            list(found.heirs),
            value,
            source,
        )
    )

"""The rows that several verbs of settings print."""

from typing import TYPE_CHECKING, NamedTuple

from broker.cli.config.entities import Entity, default_of

if TYPE_CHECKING:
    from broker.client.configs import Setting


class SettingRow(NamedTuple):
    """A setting.

    Attributes:
        name: its name.
        value: in force; null: none, or a password.
        source: where it was given: topic, group, broker, every-broker, file, default or quota.
        entity: what has it, as KIND/NAME.
        default: the value without any; null if the broker does not tell.
        type: of its value.
        is_read_only: it cannot be changed while the broker runs.
        is_sensitive: it is a password.
        documentation: "" if the broker does not tell.
    """

    name: str
    value: str | None
    source: str
    entity: str
    default: str | None
    type: str
    is_read_only: bool
    is_sensitive: bool
    documentation: str


class Changed(NamedTuple):
    """A setting that is changed.

    Attributes:
        name: its name.
        entity: what has it, as KIND/NAME.
        before: what was set for the entity itself; null: nothing, or a password.
        after: what is set from now on; null: nothing, so that the broader value is in force.
    """

    name: str
    entity: str
    before: str | None
    after: str | None


def setting_row(entity: Entity, found: "Setting") -> SettingRow:
    """Return a setting as it is printed."""
    return SettingRow(
        found.name,
        found.value,
        found.source,
        str(entity),
        default_of(found),
        found.kind,
        found.is_read_only,
        found.is_sensitive,
        found.documentation,
    )

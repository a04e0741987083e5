"""The common types of the config APIs: resource types and configuration entries."""

from enum import IntEnum
from typing import TYPE_CHECKING

from broker.model.config import ConfigEntry, Source
from broker.model.settings import Kind

if TYPE_CHECKING:
    from broker.codec import bodies


class Resource(IntEnum):
    """Kafka's `ConfigResource.Type`; CLIENT_METRICS has no resources here."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


# Kafka's ConfigSource.
_SOURCES = {
    Source.TOPIC: 1,
    Source.DYNAMIC_BROKER: 2,
    Source.DYNAMIC_DEFAULT: 3,
    Source.STATIC_BROKER: 4,
    Source.DEFAULT: 5,
    Source.LOGGER: 6,
    Source.GROUP: 8,
}
# Kafka's ConfigType.
_TYPES = {
    Kind.BOOLEAN: 1,
    Kind.STRING: 2,
    Kind.INT: 3,
    Kind.LONG: 5,
    Kind.DOUBLE: 6,
    Kind.LIST: 7,
    Kind.PASSWORD: 9,
}


def entry_fields(entry: ConfigEntry) -> "bodies.CreateTopicsResponseConfig":
    """Return the fields of a key in CreateTopics and DescribeConfigs; passwords have no value."""
    is_password = entry.kind is Kind.PASSWORD
    return {
        "name": entry.name,
        "value": None if is_password else entry.text,
        "read_only": entry.is_read_only,
        "config_source": _SOURCES[entry.source],
        "is_sensitive": is_password,
    }


def description_fields(
    entry: ConfigEntry, *, has_synonyms: bool, has_documentation: bool
) -> "bodies.DescribeConfigsResponseConfig":
    """Return the fields of a key in DescribeConfigs; synonyms begin with the most specific."""
    fields = entry_fields(entry)
    return {
        **fields,
        "is_default": entry.source is Source.DEFAULT,
        "synonyms": [
            {
                "name": each.name,
                "value": None if fields["is_sensitive"] else each.text,
                "source": _SOURCES[each.source],
            }
            for each in entry.synonyms
            if has_synonyms
        ],
        "config_type": _TYPES[entry.kind],
        "documentation": entry.documentation if has_documentation else None,
    }

"""A row of the table of settings: a name, its type, its default, its range, its description."""

from enum import Enum
from typing import NamedTuple, TypeAlias

from broker.model.secret import Secret

Value: TypeAlias = int | float | bool | str | tuple[str, ...] | Secret | None

INT16_MAX = (1 << 15) - 1
INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
NOT_YET = "Accepted and stored, but without effect in this version."


class Kind(Enum):
    """Kafka's config types, with the names of DescribeConfigs."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    PASSWORD = "password"  # noqa: S105 - a type: its values are never shown (model/secret.py)


class Setting(NamedTuple):
    """One row of the table; a dataclass would take a start ten times as long to define."""

    name: str
    kind: Kind
    default: Value
    doc: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""  # of each word of a list with too many choices to name
    topic: str = ""  # the topic key whose broker-wide value this is
    scale: int = 1  # factor from this row's unit to the topic key's
    group: str = ""  # the group key whose broker-wide value this is
    is_dynamic: bool = False  # whether it may be altered while the broker runs
    # Whether listener.name.<name>.<setting> is its value for one listener (KIP-103), which takes
    # precedence, and listener.name.<name>.<mechanism>.<setting> that for one SASL mechanism of it.
    is_per_listener: bool = False
    is_per_mechanism: bool = False
    is_dynamic_per_listener: bool = False  # it may be altered for one listener of one broker
    applies: bool = True
    # Kafka allows values above `maximum`, which is a limit of this broker: they mean the maximum.
    is_capped: bool = False
    kafka_default: str | None = None  # where it is another one, as text

    @property
    def documentation(self) -> str:
        """The description for users; it says if the setting has no effect."""
        return self.doc if self.applies else f"{self.doc} {NOT_YET}"

    @property
    def allowed(self) -> str:
        """The allowed values, as text."""
        if self.kind is Kind.BOOLEAN and not self.choices:
            return "true or false"
        if self.choices:
            return ("a list of " if self.kind is Kind.LIST else "") + " | ".join(
                each or "(empty)" for each in self.choices
            )
        if self.pattern:
            return f"a list of words that match {self.pattern}"
        if self.minimum is not None:
            unit = self.unit and f" {self.unit}"
            highest = INT_MAX if self.maximum is None and self.kind is Kind.INT else self.maximum
            end = "or more" if highest is None else f".. {highest}"
            more = f" (more means {self.maximum})" if self.is_capped else ""
            return f"{self.minimum} {end}{unit}{more}"
        return "comma-separated values" if self.kind is Kind.LIST else "any text"

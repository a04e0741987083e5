"""What a setting is, what value it has and why: for the command line, documents and DescribeConfigs.

`explain` needs no running broker: given a configuration, also one that a running broker has told, it
says which value is in force and where it was given; without one it says what can be given.
"""

from pathlib import Path
from typing import NamedTuple

from broker.model.config import Config, Source


class Explanation(NamedTuple):
    """All that is known of a setting.

    Attributes:
        name: as it was asked for.
        scopes: what has such a setting: broker, topic, group, listener, mechanism.
        use: used; stored (accepted and shown, without an effect yet); unused (only Kafka has it).
        documentation: for users.
        kind: the name of its type; "" of a setting that only Kafka has.
        unit: of its value; "" for none.
        allowed: the allowed values, as text.
        default: as text; None: there is none.
        change: running (it may be altered while the broker runs), start, or never.
        origin_of_name: kafka or polylog.
        synonyms: other settings that its value may come from, in order of precedence.
        heirs: the topic and group keys whose broker-wide value it is.
        value: in force, as text; None: none, or there is no configuration. Passwords are hidden.
        source: of that value; None without a configuration.
        origin: where it was given at the start: a file with its line, a variable, the command line.
    """

    name: str
    scopes: tuple[str, ...]
    use: str
    documentation: str
    kind: str
    unit: str
    allowed: str
    default: str | None
    change: str
    origin_of_name: str
    synonyms: tuple[str, ...] = ()
    heirs: tuple[str, ...] = ()
    value: str | None = None
    source: Source | None = None
    origin: str = ""


class Problem(NamedTuple):
    """Something about a line of a configuration file.

    Attributes:
        file: the file.
        line: its number; 0: the whole file.
        name: of the setting; "" for none.
        severity: error (a start would be refused), warning (it is not what one may expect), note
            (it has no effect here).
        text: what it is, and what to do.
    """

    file: Path
    line: int
    name: str
    severity: str
    text: str


def explain(name: str, config: Config | None = None) -> Explanation:
    """Explain a setting of the broker, of listeners, topics or groups.

    Raises ConfigError for a name that is none, with the nearest one.
    """
    raise NotImplementedError


def lint(path: Path) -> list[Problem]:
    """Check a configuration file, TOML or Kafka's properties, in the order of its lines."""
    raise NotImplementedError

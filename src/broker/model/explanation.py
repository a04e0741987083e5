"""What a setting is, what value it has and why: for commands and documents.

`explain` needs no running broker: given a configuration, also one that a running broker has told,
it says which value is in force and where it was given; without one it says what can be given.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from broker.model.config import (
    Config,
    Reading,
    Source,
    find_broker_setting,
    is_dynamic,
    read,
    setting_of,
    value_to_text,
)
from broker.model.config_sources import given_texts
from broker.model.errors import ConfigError
from broker.model.group_config import GroupConfig
from broker.model.listener import PREFIX
from broker.model.secret import Secret
from broker.model.secret_file import check_secret_file
from broker.model.setting import Setting
from broker.model.settings import (
    ALIASES,
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    per_listener_setting,
)
from broker.model.topic_config import TopicConfig
from broker.model.unused_settings import is_unused, unknown

ERROR: Final = "error"
WARNING: Final = "warning"
NOTE: Final = "note"
_OWN: Final = "polylog."


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
        change: running (it may be altered while the broker runs; perhaps only for a listener of one
            broker), start, or never.
        origin_of_name: kafka or polylog.
        synonyms: other settings that its value may come from, in order of precedence.
        heirs: the topic and group keys whose broker-wide value it is.
        value: in force, as text; None: none, or there is no configuration. Passwords are hidden.
        source: of that value; None without a configuration.
        origin: where it was given at the start: a file with its line, a variable, the command line.
        kafka_default: Kafka's default, as text, where it is another one.
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
    kafka_default: str | None = None


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

    The settings of topics that only a protocol has are known once `broker.protocols` is imported.
    Raises ConfigError for a name that is none, with the nearest one.
    """
    if name in ALIASES:
        main = explain(ALIASES[name], config)
        text = f"Kafka's other name of {main.name}, which precedes it. {main.documentation}"
        return main._replace(name=name, documentation=text, synonyms=(main.name,))
    if is_unused(name):
        return _explain_unused(name, config)
    explanation = _explain_used(name)
    return explanation if config is None else _with_value(explanation, config)


def explain_all(config: Config | None = None) -> list[Explanation]:
    """Explain every setting of the broker, and those that listeners were given, by name."""
    names = BROKER_SETTINGS.keys() if config is None else config.names
    return [explain(name, config) for name in sorted(names)]


def as_json(config: Config) -> str:
    """Return the configuration in force with its sources, as `broker start --check` prints it."""
    settings = [
        {
            "name": each.name,
            "value": each.value,
            "source": None if each.source is None else each.source.value,
            "origin": each.origin,
            "default": each.default,
            "type": each.kind,
        }
        for each in explain_all(config)
    ]
    start = config.start
    return json.dumps(
        {
            "settings": settings,
            "not_used": [{"name": name, "origin": at} for name, at in start.not_used.items()],
            "ignored": list(start.ignored),
            "warnings": [{"name": name, "text": text} for name, text in start.warnings],
        },
        indent=1,
    )


def lint(path: Path) -> list[Problem]:
    """Check a configuration file, TOML or Kafka's properties, in the order of its lines."""
    sources = given_texts([], {}, path)
    reading = read(sources, os.environ)
    places = {**reading.start.not_used, **reading.start.origins}
    problems = [
        *(_problem(path, each.origin, each.name, ERROR, each.text) for each in reading.faults),
        *(
            _problem(path, places[name], name, WARNING, text)
            for name, text in reading.start.warnings
        ),
        *(
            _problem(path, origin, name, NOTE, "only Apache Kafka has it; it has no effect here")
            for name, origin in reading.start.not_used.items()
        ),
        *_without_effect(path, reading),
        *(
            _problem(path, each.origin, each.name, WARNING, "a later line gives it again")
            for each in sources.replaced
        ),
        *_readable_passwords(path, reading, places),
    ]
    return sorted(problems, key=lambda each: each.line)


def _explain_used(name: str) -> Explanation:
    row = BROKER_SETTINGS.get(name)
    if row is not None:
        scopes = ["broker"]
        scopes += ["listener"] if row.is_per_listener else []
        scopes += ["mechanism"] if row.is_per_mechanism else []
        scopes += ["topic"] if name in TOPIC_SETTINGS else []
        heirs = tuple(each for each in (row.topic, row.group) if each)
        return _of_row(row, scopes, _change(row), heirs=heirs)
    row = per_listener_setting(name)
    if row is not None:
        change = "running" if is_dynamic(row) else "start"
        return _of_row(row, ["listener"], change, (setting_of(name),))
    for scope, views in (("topic", TOPIC_SETTINGS), ("group", GROUP_SETTINGS)):
        view = views.get(name)
        if view is not None:
            synonyms = tuple(each.name for each in view.synonyms)
            return _of_row(view.setting, [scope], "running", synonyms)
    keys = [*TOPIC_SETTINGS, *GROUP_SETTINGS]
    raise ConfigError(unknown(name, more=keys))


def _of_row(
    row: Setting,
    scopes: Sequence[str],
    change: str,
    synonyms: tuple[str, ...] = (),
    heirs: tuple[str, ...] = (),
) -> Explanation:
    return Explanation(
        name=row.name,
        scopes=tuple(scopes),
        use="used" if row.applies else "stored",
        documentation=row.documentation,
        kind=row.kind.value,
        unit=row.unit,
        allowed=row.allowed,
        default=value_to_text(row.default),
        change=change,
        origin_of_name="polylog" if row.name.startswith(_OWN) else "kafka",
        synonyms=synonyms,
        heirs=heirs,
        kafka_default=row.kafka_default,
    )


def _change(row: Setting) -> str:
    if is_dynamic(row):
        return "running"
    return "running, for a listener" if row.is_dynamic_per_listener else "start"


def _explain_unused(name: str, config: Config | None) -> Explanation:
    origin = "" if config is None else config.start.not_used.get(name, "")
    return Explanation(
        name=name,
        scopes=("broker",),
        use="unused",
        documentation="Apache Kafka has it; it is accepted and has no effect here.",
        kind="",
        unit="",
        allowed="any text",
        default=None,
        change="never",
        origin_of_name="kafka",
        origin=origin,
    )


def _with_value(explanation: Explanation, config: Config) -> Explanation:
    """Return an explanation with the value in force; of topics and groups, what they inherit."""
    name = explanation.name
    if name in BROKER_SETTINGS or name.startswith(PREFIX):
        names = [name, *explanation.synonyms]
        known = next(each for each in names if each in config.names)
        given = next((each for each in names if config.is_given(each)), known)
        text = value_to_text(config.get(given))
        return explanation._replace(
            value=text, source=config.source(given), origin=_origin(config, given)
        )
    of_group = "group" in explanation.scopes
    own = GroupConfig({}, config) if of_group else TopicConfig({}, config)
    given = next((each for each in explanation.synonyms if config.is_given(each)), "")
    return explanation._replace(
        value=value_to_text(own.get(name)),
        source=own.source(name),
        origin=_origin(config, given) if given else "",
    )


def _origin(config: Config, name: str) -> str:
    """Return where the start gave a value that is in force."""
    return config.origins.get(name, "") if config.source(name) is Source.STATIC_BROKER else ""


def _problem(file: Path, origin: str, name: str, severity: str, text: str) -> Problem:
    """Return a problem at the line that its origin, or else the beginning of its text, names."""
    found = re.match(rf"{re.escape(str(file))}:(\d+)", origin or text)
    if found is not None and not origin:
        text = text[found.end() :].removeprefix(": ")
    return Problem(file, int(found[1]) if found else 0, name, severity, text)


def _without_effect(path: Path, reading: Reading) -> Iterator[Problem]:
    for name, origin in reading.start.origins.items():
        if name in reading.values and not find_broker_setting(name).applies:
            yield _problem(path, origin, name, NOTE, "it has no effect in this version")


def _readable_passwords(
    path: Path, reading: Reading, places: Mapping[str, str]
) -> Iterator[Problem]:
    passwords = [name for name, value in reading.values.items() if isinstance(value, Secret)]
    if not passwords:
        return
    try:
        check_secret_file(path, "the file")
    except ConfigError as error:
        yield _problem(path, places.get(passwords[0], ""), passwords[0], ERROR, str(error))

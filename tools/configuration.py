"""Print docs/configuration.md with its lists of settings as the code has them.

A test compares the page with what this prints:

    .venv/bin/python -m tools.configuration > build/page && mv build/page docs/configuration.md
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import fill
from typing import Final

import broker.protocols.registry  # noqa: F401 - which adds the settings of topics that only protocols have
from broker.model.explanation import Explanation, explain, explain_all
from broker.model.settings import ALIASES, GROUP_SETTINGS, TOPIC_SETTINGS
from broker.model.unused_settings import UNUSED_SETTINGS

PAGE: Final = Path(__file__).parents[1] / "docs/configuration.md"
_BEGIN: Final = "<!-- What follows is written by tools/configuration.py. -->\n"
_CHANGES: Final = {
    "running": "while it runs",
    "running, for a listener": "while it runs, for a listener",
    "start": "at the start",
}


def text() -> str:
    """Return the content of the page."""
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    return "\n".join([f"{head}{_BEGIN}", *_lists()])


def _lists() -> Iterator[str]:
    yield "## Settings of a broker\n"
    yield from _table(explain_all(), of_broker=True)
    others = ", ".join(f"`{name}` for `{main}`" for name, main in ALIASES.items())
    yield f"\nOther names, as in Kafka: {others}.\n"
    yield "## Settings of a topic\n"
    yield from _table((explain(name) for name in TOPIC_SETTINGS), of_broker=False)
    yield "\n## Settings of a group\n"
    yield from _table((explain(name) for name in GROUP_SETTINGS), of_broker=False)
    yield "\n## Settings that only Kafka has\n"
    yield "They are accepted and have no effect.\n"
    names = ", ".join(f"`{name}`" for name in sorted(UNUSED_SETTINGS))
    yield fill(names, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _table(settings: Iterable[Explanation], *, of_broker: bool) -> Iterator[str]:
    column = "changes" if of_broker else "broker-wide value"
    yield f"| name | meaning | values | default | {column} |"
    yield "|---|---|---|---|---|"
    for each in settings:
        last = (
            _CHANGES[each.change] if of_broker else ", ".join(f"`{name}`" for name in each.synonyms)
        )
        cells = (f"`{each.name}`", _meaning(each), each.allowed, _default(each), last or "-")
        yield f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(cell: str) -> str:
    """Return a text that does not end its cell, nor begins a tag."""
    return cell.replace("|", "\\|").replace("<", "&lt;")


def _meaning(setting: Explanation) -> str:
    scopes = [each for each in setting.scopes if each in ("listener", "mechanism")]
    own = f" Also of one {' or '.join(scopes)}." if scopes else ""
    return f"{setting.documentation}{own}"


def _default(setting: Explanation) -> str:
    own = (
        "none"
        if setting.default is None
        else f"`{setting.default}`"
        if setting.default
        else "empty"
    )
    of_kafka = "" if setting.kafka_default is None else f" (Kafka: `{setting.kafka_default}`)"
    return f"{own}{of_kafka}"


if __name__ == "__main__":
    sys.stdout.write(text())

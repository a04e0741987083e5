"""docs/cli.md, from the commands themselves: `python -m broker.cli.document > docs/cli.md`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from typing import Any, Final

import click

from broker.cli.exit_codes import Exit
from broker.cli.frame import Verb, is_shared
from broker.cli.nouns import NOUNS
from broker.cli.output import FORMATS
from broker.cli.tree import verbs

_FIELD: Final = re.compile(r"^ {4}(\w+): (.*?)(?=^ {4}\w+: |\Z)", re.MULTILINE | re.DOTALL)
_HEAD: Final = """\
# The command line

`broker NOUN VERB`. `broker start` is described in {operations}. The verbs that need a broker
are clients of any that speaks Kafka's protocol, Apache Kafka included. This page is made
from the commands: `python -m broker.cli.document > docs/cli.md`.

```sh
broker topic create greetings
echo hello | broker topic produce greetings
broker topic consume greetings -e
broker topic delete greetings --yes
```

## Habits

- A table is printed on a terminal, an object per line elsewhere; `-o` chooses one of {formats}.
  Names of fields do not change; sizes and times are in a form for people in tables only. `name`
  prints the first field of each row.
- `consume`, `tail` and `search` print text without `-o`, in the format of `-f`, `segment dump` and
  `import` text of their own; `produce` prints the offsets of records with `-o` only.
- A verb whose help names totals prints a report. With `-o json` and `yaml` it is an object of
  `rows`, `totals` and `problems`; other formats have the rows, and totals and problems are on
  stderr, or in a table below it. Problems make the command exit with 1.
- `NO_COLOR` is obeyed. What is no answer (progress after a second, undo commands, errors) is on
  stderr. An error is one line that says what to do.
- What changes something has `--dry-run`, except for `produce` and `consume -g`, for `demo` and
  `bench`, which have topics of their own, and for what writes new files or into an empty store.
  What destroys something shows what will go, wants the name typed or `--yes`, and prints the
  command that undoes it, as far as one does.
- NAME|REGEX is a name, or a regular expression for whole names. TIME is `2026-01-31T12:00:00`
  (UTC without an offset), seconds or milliseconds since 1970, or `-90s`, `-5m`, `-1h`, `-7d`.
- RANGE is `start`, `end`, an offset, `+N` (N behind the start), `-N` (the last N of each
  partition), `@TIME`, or `A:B` of these, without B.
- Retention may delete records while `consume`, `tail`, `search`, `export`, `clone` or `rename`
  read them. Then a line on stderr has the partition and the offsets, the verb goes on with the
  first record that is left, and ends with 8. So does `consume -g` if records after the offset of
  the group were deleted, and `export --resume` if records after the end of the file were.
- A key, a value or a header's value in JSON is a text, `null`, or `{{"base64": "..."}}` if it is
  no UTF-8.
- `broker generate completion bash|zsh|fish` prints a script; it completes topics, groups and
  names of settings, too.

## Which broker

{connection}

An option precedes its variable in the environment, which precedes the profile; a profile that is
named by `--profile` precedes the variables of the others. `broker profile create local
localhost:9092` makes a profile, `broker profile use` chooses one.

## Exit codes

| code | meaning |
|---|---|
{codes}
"""


def page() -> str:
    """Return the page."""
    found = list(verbs())
    first = next(each for _, each in found if not each.is_local)
    shared = [each for each in first.params if is_shared(each)]
    head = _HEAD.format(
        operations=_link("operations"),
        formats=", ".join(f"`{each}`" for each in FORMATS),
        connection=_options(shared),
        codes="\n".join(f"| {each.value} | {each.meaning} |" for each in Exit),
    )
    return "\n".join([head, *_nouns(found)]).rstrip("\n") + "\n"


def _link(page: str) -> str:
    return f"[{page}.md]({page}.md)"


def fields_of(row: type[Any]) -> dict[str, str]:
    """Return what the docstring of a row says about each field."""
    attributes = cleandoc(row.__doc__ or "").partition("Attributes:")[2]
    return {name: " ".join(text.split()) for name, text in _FIELD.findall(attributes)}


def _nouns(found: list[tuple[str, Verb]]) -> Iterator[str]:
    for noun, purpose in sorted(NOUNS.items()):
        yield f"## broker {noun}\n\n{purpose[0].upper()}{purpose[1:]}.\n"
        for name, command in found:
            if name.split()[0] == noun:
                yield from _verb(name, command)


def _verb(name: str, command: Verb) -> Iterator[str]:
    context = click.Context(command, info_name=f"broker {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"### broker {name}\n\n`broker {name} {usage}`\n\n{_text(command.help or '')}\n"
    options = [
        each for each in command.params if isinstance(each, click.Option) and not is_shared(each)
    ]
    if options:
        yield _options(options) + "\n"
    yield "```sh\n" + "\n".join(command.examples) + "\n```\n"
    for kind in filter(None, (command.row, command.other_row)):
        yield _meanings("field", fields_of(kind))
    if command.totals:
        yield _meanings("total", command.totals)


def _meanings(what: str, meanings: Mapping[str, str]) -> str:
    rows = [f"| `{each}` | {_cell(text)} |" for each, text in meanings.items()]
    return "\n".join([f"| {what} | meaning |", "|---|---|", *rows]) + "\n"


def _options(options: Sequence[click.Parameter]) -> str:
    lines = ["| option | meaning |", "|---|---|"]
    for each in options:
        assert isinstance(each, click.Option), each
        takes = each.make_metavar(click.Context(click.Command("broker")))
        names = ", ".join(f"`{name}`" for name in each.opts)
        value = "" if each.is_flag else f" `{_cell(takes)}`"
        lines.append(f"| {names}{value} | {_cell(each.help or '')} |")
    return "\n".join(lines)


def _text(text: str) -> str:
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")

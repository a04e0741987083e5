"""What all scenarios share: the file format, arguments, a log and a clock.

A file has blocks of commands, `----`, and their expected output (as etcd does). To regenerate the
expected output, which must be reviewed before it is committed:

    REWRITE_SCENARIOS=1 python -m pytest tests/scenarios
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic

from broker.core.coordination.machine import Decision, Moment, RecordFormat
from broker.model.limits import GROUP_ID_BYTES_MAX
from tests.support.logged_shard import LoggedShard, ShardT
from tests.support.subscriptions import Place, by_topic, place

START_MS = 1_000_000


class Arguments:
    """The arguments of a command: some positional, the rest `name=value`."""

    def __init__(self, line: str) -> None:
        words = line.split()
        self.verb = words[0]
        self.bare = [word for word in words[1:] if "=" not in word]
        self.named = dict(word.split("=", 1) for word in words[1:] if "=" in word)

    def text(self, name: str, default: str = "") -> str:
        return self.named.get(name, default)

    def number(self, name: str, default: int) -> int:
        return int(self.named.get(name, default))

    def pairs(self, name: str, default: str = "") -> list[tuple[str, str]]:
        """`a:x,b:y` as pairs."""
        text = self.named.get(name, default)
        return [
            (pair.partition(":")[0], pair.partition(":")[2]) for pair in text.split(",") if pair
        ]

    def places(self, name: str) -> list[Place]:
        """`t-0,t-1,u-0` as pairs."""
        return [place(each) for each in self.text(name).split(",") if each]

    def partitions(self) -> dict[str, tuple[int, ...]]:
        """`partitions=t-0,t-1,u-0` by topic."""
        return {topic: tuple(each) for topic, each in by_topic(self.places("partitions")).items()}

    @property
    def group(self) -> str:
        """Return the first word, with stand-ins for special names.

        `huge` is a name one byte above the limit, `large` one at the limit, and `untext` stands for
        bytes that are not UTF-8.
        """
        name = self.bare[0] if self.bare else ""
        sizes = {"huge": GROUP_ID_BYTES_MAX + 1, "large": GROUP_ID_BYTES_MAX}
        return "\udcff" if name == "untext" else name.ljust(sizes.get(name, 0), ".")

    @property
    def token(self) -> str:
        return self.text("as", self.text("client", self.text("member", self.verb)))


class Scenario(ABC, Generic[ShardT]):
    """One shard, its log, a clock, and the output since it was last taken."""

    def __init__(self, record_format: RecordFormat[Any]) -> None:
        self.ids = 0
        self.lines: list[str] = []
        self.logged = LoggedShard(self.make_shard, record_format, START_MS)

    @abstractmethod
    def make_shard(self) -> ShardT:
        """Return a new shard without state."""

    @abstractmethod
    def shown_record(self, record: Any) -> str:
        """Return the text of a record."""

    @abstractmethod
    def shown_response(self, response: Any) -> str:
        """Return the text of a response."""

    @property
    def shard(self) -> ShardT:
        return self.logged.shard

    def now(self) -> Moment:
        return self.logged.now()

    def run(self, line: str) -> list[str]:
        """Execute a line; return its output."""
        words = Arguments(line)
        verb: Callable[[Arguments], None] = getattr(self, f"do_{words.verb.replace('-', '_')}")
        verb(words)
        said = [re.sub(r"\.{9,}", "...", line.rstrip()) for line in self.lines]
        self.lines = []
        return said

    def apply(self, decision: Decision[Any, Any]) -> None:
        self.logged.write(decision)
        self.lines += [f"record {self.shown_record(record)}" for record in decision.records]
        self.lines += [f"note {line}" for line in decision.notes]
        for token, response in decision.replies:
            self.lines.append(f"{token}: {self.shown_response(response)}")

    def apply_all(self, decisions: Iterable[Decision[Any, Any]]) -> None:
        for decision in decisions:
            self.apply(decision)

    def begin_again(self) -> None:
        """Replace the shard: the settings have changed."""
        self.logged.shard = self.make_shard()

    def do_advance(self, words: Arguments) -> None:
        """Let time pass; what happens is printed with the time."""
        start_ms = self.logged.now_ms
        for decisions in self.logged.advance(int(words.bare[0])):
            before = len(self.lines)
            self.apply_all(decisions)
            if len(self.lines) > before:
                self.lines.insert(before, f"+{self.logged.now_ms - start_ms} ms")

    def do_spoil(self, _words: Arguments) -> None:
        """Make the last record undecodable, which shows after a reload."""
        self.logged.spoil_last()

    def do_reload(self, _words: Arguments) -> None:
        """Lose everything but the log."""
        self.lines += [f"{token}: told to find the coordinator" for token in self.shard.waiting()]
        self.apply_all(self.logged.reload())


def check_file(path: Path, conversation: Scenario[Any]) -> None:
    """Run a scenario file."""
    expected = path.read_text()

    actual = _run_file(expected, conversation)

    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(actual)
    assert actual == expected


def _run_file(text: str, conversation: Scenario[Any]) -> str:
    """Return the file again, with the actual output of each command."""
    blocks = []
    for block in text.strip().split("\n\n"):
        asked = block.partition("----")[0].rstrip("\n").split("\n")
        commands = [line for line in asked if line and not line.startswith("#")]
        said = [each for line in commands for each in conversation.run(line)]
        blocks.append("\n".join([*asked, "----", *said] if commands else asked))
    return "\n\n".join(blocks) + "\n"

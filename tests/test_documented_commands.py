"""Each command of the documents' shell blocks exists, with its options.

The quickstart, the README and some other blocks are run by tests of their own; here all are parsed.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli import _parser
from broker.cli.tree import verbs
from tests.test_documents import DOCUMENTS, ROOT, code_blocks

VERBS = dict(verbs())
PAGE_OF_EXAMPLES = "docs/cli.md"  # of all verbs; they have a test of their own
ENDS = {"|", "||", "&", "&&", ";", ">", "<", ")", "do", "done"}  # of one command in a line
SEVERAL = re.compile(r"\S\|\S|…|\.\.\.")  # a line that stands for several commands


def commands(document: str) -> Iterator[list[str]]:
    """Yield the words of each command `broker` in the shell blocks of a document."""
    for block in code_blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
            lexer.whitespace_split = True
            words = [] if SEVERAL.search(line) else list(lexer)
            while words:
                first = words.pop(0)
                if first.rpartition("/")[2] == "broker":
                    own = []
                    while words and words[0] not in ENDS:
                        own.append(words.pop(0))
                    yield own


def test_each_command_of_the_documents_can_be_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    found = [
        (document, words)
        for document in (str(each.relative_to(ROOT)) for each in DOCUMENTS)
        if document != PAGE_OF_EXAMPLES
        for words in commands(document)
    ]
    wrong = [
        f"{document}: broker {' '.join(words)}" for document, words in found if not _is_one(words)
    ]

    assert len(found) > 35
    assert wrong == [], capsys.readouterr()


@pytest.mark.parametrize("line", ["topic listen", "topic list --nothing", "start --nothing"])
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    assert not _is_one(line.split())


def _is_one(words: list[str]) -> bool:
    if words[0] in {"start", "--version"}:
        try:
            _parser().parse_args(words)
        except SystemExit:
            return False
        return True
    size = 1 if words[0] in VERBS else 2
    verb = VERBS.get(" ".join(words[:size]))
    if verb is None:
        return False
    for each in words[size:]:
        if Path(each).suffix and "://" not in each:  # files must exist
            Path(each).parent.mkdir(parents=True, exist_ok=True)
            Path(each).touch()
    try:
        verb.make_context(verb.name, words[size:])
    except Exception as error:  # noqa: BLE001 - of click, each of which is a fault of the page
        print(f"broker {' '.join(words)}: {error!r}")
        return False
    return True

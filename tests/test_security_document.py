"""The table of attacks in SECURITY.md names tests that exist."""

import ast
import re

from tests.test_documents import ROOT, document

_NAMED = re.compile(r"`(tests/[\w/]+\.py)`|`(test_\w+)`")


def named_tests() -> list[tuple[str, str]]:
    """Return the tests that rows name: a file, and the functions after it in the row."""
    found = []
    for line in document("SECURITY.md").splitlines():
        file = ""
        for path, function in _NAMED.findall(line):
            file = path or file
            if function:
                found.append((file, function))
    return found


def test_every_attack_has_a_test_that_exists() -> None:
    named = named_tests()

    assert len(named) > 50
    functions = {
        file: {
            node.name
            for node in ast.walk(ast.parse((ROOT / file).read_text()))
            if isinstance(node, ast.FunctionDef)
        }
        for file in {file for file, _ in named}
    }
    assert [(file, name) for file, name in named if name not in functions[file]] == []


def test_every_row_of_the_table_names_a_test() -> None:
    text = document("SECURITY.md")
    tables = text[text.index("## Attacks and their tests") : text.index("## Reporting")]
    rows = [line for line in tables.splitlines() if line.startswith("| ")]

    without = [row for row in rows if "`test_" not in row and not row.startswith("| attack |")]
    assert without == []

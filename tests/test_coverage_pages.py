"""The tables of the original documents: each row has a state, and its tests exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.test_documents import ROOT

PAGES = sorted((ROOT / "docs/protocols/coverage").glob("*.md"))
STATE = re.compile(r"as stated(;.*)?|(deviates|not by this broker|missing): .+")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::((?:Test\w+::)?test_\w+)(?:\[(\w+)\])?`")
ROWS_MIN = 40


def rows(text: str) -> list[list[str]]:
    """Return the cells of each row of a page's tables, without the heads."""
    lines = [each for each in text.splitlines() if each.startswith("|")]
    cells = [[cell.strip() for cell in each.strip("|").split(" | ")] for each in lines]
    return [each for each in cells if each[0] != "section" and not each[0].startswith("---")]


def classes(tree: ast.Module) -> dict[str, set[str]]:
    """Return the methods of each class, also of those that it inherits from other test files."""
    elsewhere = {
        name.name: each.module
        for each in tree.body
        if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith("tests.")
        for name in each.names
    }
    found: dict[str, set[str]] = {}
    for each in tree.body:
        if isinstance(each, ast.ClassDef):
            own = {of.name for of in each.body if isinstance(of, ast.FunctionDef)}
            for base in each.bases:
                if isinstance(base, ast.Name) and base.id in elsewhere:
                    path = elsewhere[base.id].replace(".", "/") + ".py"
                    own |= classes(ast.parse((ROOT / path).read_text()))[base.id]
            found[each.name] = own
    return found


@cache
def found_in(file: str) -> frozenset[str]:
    """Return the names of the tests that pytest finds in a file; none if there is no such file."""
    path = ROOT / file
    if not path.exists() or not path.name.startswith("test_"):
        return frozenset()
    tree = ast.parse(path.read_text())
    functions = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
    methods = {f"{name}::{each}" for name, own in classes(tree).items() for each in own}
    return frozenset(functions | methods)


def wrong(row: list[str]) -> list[str]:
    """Return what is wrong with a row."""
    if len(row) != 4:
        return [f"{len(row)} cells"]
    section, statement, state, tests = row
    found = []
    if not section or not statement:
        found.append("no section or no statement")
    if not STATE.fullmatch(state):
        found.append(f"state {state!r}")
    if state.startswith("missing") and "waits for" not in state:
        found.append("what it waits for")
    named = NAMED.findall(tests)
    if "<br>".join(each[0] for each in NAMED.finditer(tests)) != tests.replace("-", ""):
        found.append(f"tests {tests!r}")
    if not named and not state.startswith("not by this broker"):
        found.append("no test")
    for file, name, scenario in named:
        if name not in found_in(file):
            found.append(f"{file}::{name}")
        if scenario and not (ROOT / file).with_name(f"{scenario}.txt").exists():
            found.append(f"{file}: {scenario}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_statement_has_a_state_and_tests_that_exist(page: Path) -> None:
    found = rows(page.read_text())

    assert len(found) >= ROWS_MIN
    assert {f"{row[0]}: {row[1]}": wrong(row) for row in found if wrong(row)} == {}


def test_every_page_is_in_the_overview() -> None:
    overview = (ROOT / "docs/protocols/coverage.md").read_text()

    assert set(re.findall(r"\]\(coverage/(\w[\w-]*\.md)\)", overview)) == {
        page.name for page in PAGES
    }
    assert len(PAGES) == 5


NO_FILE = "none" + ".py"
THIS = "`tests/test_coverage_pages.py::test_every_page_is_in_the_overview`"
CLASS = "`tests/compatibility/clients/test_confluent.py::TestConfluent::test_timestamps_come_back`"
SCENARIO = (
    "`tests/scenarios/test_scenarios.py::test_a_group_scenario_gives_the_written_responses[{}]`"
)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (f"| S | It is. | as stated | {THIS} |", []),
        (f"| S | It is. | as stated; more | {CLASS}<br>{THIS} |", []),
        (f"| S | It is. | as stated | {SCENARIO.format('offsets')} |", []),
        ("| S | It is. | not by this broker: a reason | - |", []),
        (f"| S | It is. | missing: a part | {THIS} |", ["what it waits for"]),
        (f"| S | It is. | missing: a part, which waits for another | {THIS} |", []),
        (f"| S | It is. | | {THIS} |", ["3 cells"]),
        (f"| S | It is. |  | {THIS} |", ["state ''"]),
        (f"| S | It is. | nearly | {THIS} |", ["state 'nearly'"]),
        ("| S | It is. | as stated | - |", ["no test"]),
        ("| S | It is. | as stated | tested |", ["tests 'tested'", "no test"]),
        (
            f"| S | It is. | as stated | {SCENARIO.format('none')} |",
            ["tests/scenarios/test_scenarios.py: none"],
        ),
        (
            f"| S | It is. | as stated | `tests/{NO_FILE}::test_x` |",
            [f"tests/{NO_FILE}::test_x"],
        ),
        (
            "| S | It is. | as stated | `tests/test_coverage_pages.py::test_none` |",
            ["tests/test_coverage_pages.py::test_none"],
        ),
    ],
)
def test_what_is_wrong_with_a_row_is_found(row: str, expected: list[str]) -> None:
    [cells] = rows(row)

    assert wrong(cells) == expected

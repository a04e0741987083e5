"""The formats of rows."""

import csv
import io
import json
from typing import Any, NamedTuple

import pytest

from broker.cli.output import FORMATS, Output
from broker.model.report import Report


class Nested(NamedTuple):
    """A part of a row."""

    number: int
    size_bytes: int


class Thing(NamedTuple):
    """A row."""

    name: str
    value: Any
    size_bytes: int | None = None
    parts: list[Nested] = []  # noqa: RUF012 - it is not changed


ROWS = [
    Thing("a", None, 1536, [Nested(1, 10), Nested(2, 20)]),
    Thing('b,"c"', {"x": [1, "é: # \n", {}], "y": "true"}, None),
    Thing(" no", [[], {"deep": [[1, [2]]]}, 1.5], 0),
]


def written(format_: str, rows: list[Thing], *, is_single: bool = False) -> str:
    """Return rows in a format."""
    stream = io.StringIO()
    output = Output(format_, Thing._fields, Thing._fields, is_single=is_single, stream=stream)
    for each in rows:
        output.write(each)
    output.close()
    return stream.getvalue()


def plain(row: Thing) -> dict[str, Any]:
    """Return a row as JSON has it."""
    return {**row._asdict(), "parts": [each._asdict() for each in row.parts]}


def test_json_is_one_list_also_without_rows() -> None:
    assert json.loads(written("json", ROWS)) == [plain(each) for each in ROWS]
    assert json.loads(written("json", [])) == []


def test_json_of_a_command_with_one_row_is_an_object() -> None:
    assert json.loads(written("json", ROWS[:1], is_single=True)) == plain(ROWS[0])


def test_json_lines_are_an_object_per_row() -> None:
    lines = written("jsonl", ROWS).splitlines()

    assert [json.loads(each) for each in lines] == [plain(each) for each in ROWS]


def test_yaml_has_the_same_rows() -> None:
    """It is read by a reader of the part of YAML that is written."""
    assert read_yaml(written("yaml", ROWS)) == [plain(each) for each in ROWS]
    assert read_yaml(written("yaml", ROWS[:1], is_single=True)) == plain(ROWS[0])
    assert written("yaml", []) == "[]\n"


def test_texts_that_yaml_would_take_for_something_else_are_quoted() -> None:
    for text in ("yes", "Null", "on", "1", "1.5", "-", "a: b", "a #b", "", " a", "~", "2026-01-01"):
        assert f'- name: "{text}"' in written("yaml", [Thing(text, 1)]), text


def test_csv_is_read_back() -> None:
    header, *rows = csv.reader(io.StringIO(written("csv", ROWS)))

    assert header == list(Thing._fields)
    assert [each[0] for each in rows] == [each.name for each in ROWS]
    assert json.loads(rows[1][1]) == ROWS[1].value
    assert written("csv", []) == "name,value,size_bytes,parts\n"


@pytest.mark.parametrize("text", ["a\rb", "a\nb", "a\r\nb", '"', ",", "", " a "])
def test_every_text_is_one_cell_of_csv(text: str) -> None:
    _, row = csv.reader(io.StringIO(written("csv", [Thing(text, "x")]), newline=""))

    assert row[:2] == [text, "x"]


def test_names_are_the_first_fields() -> None:
    assert written("name", ROWS).split("\n") == ["a", 'b,"c"', " no", ""]


def test_a_table_has_sizes_for_people_and_nothing_without_rows() -> None:
    first, second, *_ = written("table", ROWS).splitlines()

    assert first.split() == ["name", "value", "size", "bytes", "parts"]
    assert "1.5 KiB" in second
    assert written("table", []) == ""


def test_a_table_of_one_row_has_its_parts_below_it() -> None:
    lines = written("table", ROWS[:1], is_single=True).splitlines()

    assert lines[0].split() == ["name", "a"]
    assert [each.split() for each in lines[-3:]] == [
        ["number", "size", "bytes"],
        ["1", "10", "B"],
        ["2", "20", "B"],
    ]


@pytest.mark.parametrize("format_", FORMATS)
def test_markup_of_terminals_is_written_as_it_is(format_: str) -> None:
    assert "[bold]x[/bold]" in written(format_, [Thing("[bold]x[/bold]", 1)])


def read_yaml(text: str) -> Any:
    """Read block collections whose scalars are JSON or bare words."""
    lines = [(len(each) - len(each.lstrip()), each.strip()) for each in text.splitlines()]
    value, left = _read_block(lines)
    assert not left
    return value


def _read_block(lines: list[tuple[int, str]]) -> tuple[Any, list[tuple[int, str]]]:
    depth, first = lines[0]
    found: Any = [] if first.startswith("-") else {}
    while lines and lines[0][0] == depth and lines[0][1].startswith("-") == isinstance(found, list):
        _, line = lines[0]
        if isinstance(found, list):
            rest = line[2:]
            if _is_scalar(rest):
                found.append(_scalar(rest))
                lines = lines[1:]
            else:
                value, lines = _read_block([(depth + 2, rest), *lines[1:]])
                found.append(value)
            continue
        key, rest = _key(line)
        if rest:
            found[key] = _scalar(rest)
            lines = lines[1:]
        else:
            found[key], lines = _read_block(lines[1:])
    return found, lines


def _is_scalar(text: str) -> bool:
    if text.startswith(("- ", "-\n")):
        return False
    try:
        json.loads(text)
    except ValueError:
        return ":" not in text
    return True


def _key(line: str) -> tuple[str, str]:
    if line.startswith('"'):
        key, end = json.JSONDecoder().raw_decode(line)
        return key, line[end + 1 :].strip()
    key, _, rest = line.partition(":")
    return key, rest.strip()


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_a_table_does_not_let_names_of_clients_steer_the_terminal() -> None:
    text = written("table", [Thing("evil\x1b]0;title\x07\x9b2J", "two\nlines")])

    assert "evil\\x1b]0;title\\x07\\x9b2J" in text
    assert all(each.isprintable() for each in text.splitlines())


REPORT = Report(
    ("topic", "records", "gaps"),
    [("a", 12_345, 0), ("long", None, 0)],
    {"share": 0.5, "faulty_ones": 1},
    ["it\x1b broke"],
    frozenset({"gaps"}),
)
NO_ROWS = Report((), (), {"events": 3, "hash": "ab"})


def reported(format_: str, report: Report) -> str:
    """Return a report in a format."""
    stream = io.StringIO()
    output = Output(format_, report.columns, report.columns, stream=stream)
    output.write_report(report)
    output.close()
    return stream.getvalue()


def test_documents_of_a_report_have_all_of_it() -> None:
    expected = {
        "rows": [dict(zip(REPORT.columns, each, strict=True)) for each in REPORT.rows],
        "totals": REPORT.totals,
        "problems": REPORT.problems,
    }

    assert json.loads(reported("json", REPORT)) == expected
    assert read_yaml(reported("yaml", REPORT)) == expected
    assert json.loads(reported("json", NO_ROWS))["rows"] == []


def test_a_table_of_a_report_has_its_totals_and_problems_below_and_no_columns_of_zeros() -> None:
    assert [each.split() for each in reported("table", REPORT).splitlines()] == [
        ["topic", "records"],
        ["a", "12345"],
        ["long", "-"],
        [],
        ["share:", "0.50"],
        ["faulty", "ones:", "1"],
        ["problem:", "it\\x1b", "broke"],
    ]
    assert reported("table", NO_ROWS) == "events: 3\nhash: ab\n"


def test_lines_of_a_report_are_its_rows_and_the_rest_is_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(reported("jsonl", REPORT).splitlines()) == 2
    assert capsys.readouterr().err == "share: 0.50\nfaulty ones: 1\nbroker: it\\x1b broke\n"
    assert reported("csv", REPORT).splitlines() == ["topic,records,gaps", "a,12345,0", "long,,0"]
    assert reported("name", REPORT) == "a\nlong\n"


def test_totals_are_the_only_row_of_a_report_without_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert json.loads(reported("jsonl", NO_ROWS)) == NO_ROWS.totals
    assert reported("csv", NO_ROWS) == "events,hash\n3,ab\n"
    assert capsys.readouterr().err == ""

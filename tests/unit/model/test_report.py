"""A report as a table and as JSON."""

import json

from broker.model.report import Report

REPORT = Report(("topic", "records"), [("a", 12_345), ("long", None)], {"share": 0.5}, ["it broke"])


def test_a_table_has_numbers_on_the_right_and_totals_below() -> None:
    assert list(REPORT.as_table()) == [
        "topic  records",
        "a       12,345",
        "long         -",
        "share: 0.5",
        "problem: it broke",
    ]


def test_a_table_omits_columns_that_are_zero_as_expected() -> None:
    report = Report(("a", "b", "c"), [(0, 0, 0), (0, 2, 0)], {}, (), frozenset({"b", "c"}))

    assert list(report.as_table()) == ["a  b", "0  0", "0  2"]
    assert json.loads(report.as_json())["rows"][0] == {"a": 0, "b": 0, "c": 0}


def test_json_names_every_field() -> None:
    assert json.loads(REPORT.in_format("json")) == {
        "rows": [{"topic": "a", "records": 12_345}, {"topic": "long", "records": None}],
        "totals": {"share": 0.5},
        "problems": ["it broke"],
    }


def test_a_report_without_rows_has_only_its_totals() -> None:
    empty = Report(("topic",), [], {"segments": 0})

    assert empty.in_format("table") == "segments: 0"
    assert empty.is_well


def test_a_report_with_a_problem_is_not_ok() -> None:
    assert not REPORT.is_well

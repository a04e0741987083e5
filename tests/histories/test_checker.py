"""The checker finds what is wrong in each bad history, and nothing in possible ones."""

from pathlib import Path

import pytest

from tests.histories.bad_histories import BAD
from tests.histories.checker import check
from tests.histories.findings import CLASS_BY_NAME
from tests.histories.good_histories import GOOD
from tests.histories.history import MalformedHistoryError, Recorder, decode, encode
from tests.histories.notation import history


@pytest.mark.parametrize("what", BAD)
def test_a_bad_history_yields_the_right_finding_once(what: str) -> None:
    name, steps = BAD[what]

    assert [finding.name for finding in check(history(steps))] == [name]


@pytest.mark.parametrize("what", GOOD)
def test_a_possible_history_has_no_findings(what: str) -> None:
    assert check(history(GOOD[what])) == []


def test_every_finding_has_a_bad_history() -> None:
    assert {name for name, _ in BAD.values()} == CLASS_BY_NAME.keys()


def test_there_are_at_least_forty_bad_histories() -> None:
    assert len(BAD) >= 40


@pytest.mark.parametrize("what", BAD)
def test_a_history_is_unchanged_by_writing_and_reading_it(what: str) -> None:
    operations = history(BAD[what][1])

    assert list(decode(map(encode, operations))) == operations


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"process":"p","f":"send","type":"ok"', "1"])
def test_a_line_that_is_not_an_operation_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(MalformedHistoryError, match="line 1 is no operation"):
        list(decode([line]))


def test_an_unknown_type_is_refused() -> None:
    line = '{"process":"p","f":"send","type":"maybe","t":0,"value":{}}'

    with pytest.raises(MalformedHistoryError, match="type 'maybe' is unknown"):
        list(decode([line]))


def test_recorded_operations_are_read_in_their_order(tmp_path: Path) -> None:
    with Recorder(tmp_path / "history.jsonl") as recorder:
        recorder.write("p", "send", "invoke", values=["a"])
        recorder.write("p", "send", "ok", values=["a"], offset=0)

        found = list(recorder.read())

        assert [(each.process, each.f, each.type) for each in found] == [
            ("p", "send", "invoke"),
            ("p", "send", "ok"),
        ]
        assert found[0].t <= found[1].t
        assert recorder.done() == {"p": 1}


@pytest.mark.parametrize("offset", [None, -1])
def test_a_send_whose_producer_was_not_told_the_offset_has_none(
    tmp_path: Path, offset: int | None
) -> None:
    sent = {"topic": "t", "partition": 0, "values": ["a"], "delivery": "idempotent"}
    with Recorder(tmp_path / "history.jsonl") as recorder:
        recorder.write("p", "send", "invoke", **sent)
        recorder.write("p", "send", "ok", **sent, offset=offset)
        operations = list(recorder.read())

    assert "offset" not in operations[1].value
    assert check(operations) == []

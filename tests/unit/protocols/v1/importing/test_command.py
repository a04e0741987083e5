"""The command line of `broker import v1`."""

import time
from pathlib import Path
from typing import Any

import pytest

from broker.cli import main
from broker.protocols.v1.importing.command import _Import
from broker.protocols.v1.importing.directory import Found
from broker.protocols.v1.importing.report import Report
from tests.support.manual_clock import ManualClock

UNKNOWN_MEMBER_ID = 25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--partitions", "0"], "0 is not in the range 1<=x<=10000"),
        (["--retention", "soon"], "'soon' is not a valid integer range"),
        ([], "give the data directory of V1's server"),
    ],
)
def test_an_invalid_import_exits_2_and_names_the_remedy(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "v1", str(tmp_path), *options]) == 2

    assert message in capsys.readouterr().err


class Coordinator:
    """A broker whose group has members for some commits, and other offsets than the import."""

    def __init__(self, refused: int) -> None:
        self._refused = refused
        self.commits = 0

    def request(self, api: str, _version: int, body: dict[str, Any]) -> dict[str, Any]:
        assert (api, body["group_id"]) in {("OffsetCommit", "g"), ("OffsetFetch", "g")}
        self.commits += api == "OffsetCommit"
        code = UNKNOWN_MEMBER_ID if self.commits <= self._refused else 0
        found = {"partition_index": 0, "error_code": code, "committed_offset": 7}
        return {"topics": [{"name": "t", "partitions": [found]}]}


def commit_beside_members(refused: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Report, int]:
    clock = ManualClock()
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.advance(int(seconds * 1000)))
    told: list[str] = []
    coordinator, report = Coordinator(refused), Report(0, told.append)
    options = {"partitions": 3, "retention": -1}
    importing = _Import(coordinator, report, options, clock)  # type: ignore[arg-type]
    importing.run(Found({}, 0), {"g": {"t": {0: 0}}})
    assert "group 'g' has members: waiting for their end" in told
    return report, coordinator.commits


def test_offsets_are_committed_once_the_members_of_their_group_have_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report, commits = commit_beside_members(5, monkeypatch)

    assert report.is_complete
    assert report.offsets == {"g": {"t": {0: 0}}}
    assert commits == 6


def test_offsets_are_not_committed_beside_members_that_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report, commits = commit_beside_members(10_000, monkeypatch)

    assert "UNKNOWN_MEMBER_ID" in report.problems[0]
    assert 100 < commits < 200

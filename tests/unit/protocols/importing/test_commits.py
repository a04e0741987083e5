"""Committed offsets of an import, and groups that have members."""

import time
from typing import Any

import pytest

from broker.protocols.importing.commits import Commits
from broker.protocols.importing.report import Report
from tests.support.manual_clock import ManualClock

UNKNOWN_MEMBER_ID = 25


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
    coordinator, report = Coordinator(refused), Report(told.append)
    commits = Commits(coordinator, report, clock, is_dry_run=False)  # type: ignore[arg-type]
    commits.commit("g", {"t": {0: 0}})
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

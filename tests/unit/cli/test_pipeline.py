"""The jobs in Spark as the command line starts them, without Spark: their options and reports."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker import pipeline
from broker.cli import main
from broker.cli.profiles import Connection
from broker.cli.tree import verbs
from broker.client.metadata import Cluster
from broker.model.address import parse_addresses
from broker.model.report import Report

VERBS = dict(verbs())
ADDRESS = "127.0.0.1:1"


class Spark:
    """A session that can be stopped."""

    stopped = 0

    def stop(self) -> None:
        """Count it."""
        Spark.stopped += 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options with which jobs are started; each returns a report with all fields and totals."""
    found: list[Any] = []

    def job(name: str) -> Any:
        verb = VERBS[f"pipeline {name}"]

        def run(_: Spark, options: Any, **__: Any) -> Report:
            found.append(options)
            totals = {each: 1 for each in verb.totals or verb.row._fields if "file" not in each}
            fields = verb.row._fields if verb.totals else ()
            return Report(fields, [tuple(range(len(fields)))] if fields else [], totals)

        return run

    Spark.stopped = 0
    monkeypatch.setattr(pipeline, "session", lambda *_, **__: Spark())
    monkeypatch.setattr(pipeline, "register", lambda _: None)
    monkeypatch.setattr(Connection, "cluster", lambda _: Cluster(parse_addresses(ADDRESS)))
    for each in ("archive", "replay", "dedupe"):
        monkeypatch.setattr(pipeline, each, job(each), raising=False)
    joined = Report((), (), {"files_merged": 2, "files_written": 1})
    monkeypatch.setattr(pipeline, "compact", lambda *_: joined, raising=False)
    return found


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Settings of a client that is secured."""
    file = tmp_path / "client.properties"
    file.touch(0o600)
    file.write_text("security.protocol=SSL\n")
    return file


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (
            "archive orders TABLE --format parquet --allow-data-loss --compact",
            {"topic": "orders", "table_format": "parquet", "fails_on_data_loss": False},
        ),
        (
            "replay TABLE orders --where x=1 --by-key --records-per-second 5 --id again",
            {"where": "x=1", "keeps_partitions": False, "records_per_second": 5}
            | {"replay_id": "again", "topic": "orders", "table_format": "delta"},
        ),
        (
            "dedupe orders once --by key --within 5s --checkpoint STATE",
            {"source": "orders", "target": "once", "by": "key", "within": "5s"}
            | {"checkpoint": Path("STATE")},
        ),
    ],
)
def test_options_reach_the_job_with_the_security_of_the_connection(
    words: str,
    options: dict[str, Any],
    started: list[Any],
    properties: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, *_ = words.split()
    connection = ["--broker", ADDRESS, "--command-config", str(properties)]

    assert main(["pipeline", *words.split(), *connection, "-o", "json"]) == 0

    [given] = [each._asdict() for each in started]
    assert given.items() >= {**options, "bootstrap": ADDRESS}.items()
    assert given["security"].properties == {"security.protocol": "SSL"}
    report = json.loads(capsys.readouterr().out)
    verb = VERBS[f"pipeline {name}"]
    assert [list(row) for row in report["rows"]] == [list(verb.row._fields)] * bool(verb.totals)
    assert ("files_merged" in report["totals"]) == ("--compact" in words)
    assert Spark.stopped == 1

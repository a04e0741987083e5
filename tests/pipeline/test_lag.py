"""`broker pipeline lag` on a real broker."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from broker.codec import encode
from broker.model.errors import ConfigError
from broker.model.report import Report
from broker.pipeline.jobs.lag import lag, plot
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.manual_clock import ManualClock
from tests.support.wire_client import WireClient

StartBroker = Callable[..., BrokerProcess]
NOW_MS = 1_700_000_000_000


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    # The times of the records are of 2023.
    return start_broker("log.retention.ms=-1")


def fill(broker: BrokerProcess, topic: str, *counts: int) -> None:
    """Create a topic with that many records in each partition: one per second, the last one now."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, len(counts))
        for partition, count in enumerate(counts):
            for each in range(count):
                time = NOW_MS - 1_000 * (count - 1 - each)
                [batch] = encode([b"v"], timestamp_ms=time)
                assert wire_requests.produce(client, topic, batch, partition)[0] == 0


def commit(broker: BrokerProcess, group: str, topic: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    try:
        consumer.commit(
            offsets=[TopicPartition(topic, each, offset) for each, offset in enumerate(offsets)],
            asynchronous=False,
        )
    finally:
        consumer.close()


def rows(report: Report) -> list[dict[str, Any]]:
    return [dict(zip(report.columns, row, strict=True)) for row in report.rows]


def test_lag_is_counted_in_records_and_by_the_age_of_the_first_of_them(
    broker: BrokerProcess, topic: str
) -> None:
    fill(broker, topic, 100, 20)
    commit(broker, "readers", topic, 40, 20)

    report = lag(broker.address, window_seconds=10, clock=ManualClock(NOW_MS))

    assert rows(report) == [
        {
            "group": "readers",
            "topic": topic,
            "partition": 0,
            "end": 100,
            "committed": 40,
            "lag": 60,
            "records_per_second": 1.1,  # at both ends of the window there is one
            "seconds_behind": 59.0,
            "share": 100.0,
        },
        {
            "group": "readers",
            "topic": topic,
            "partition": 1,
            "end": 20,
            "committed": 20,
            "lag": 0,
            "records_per_second": 1.1,
            "seconds_behind": 0.0,
            "share": 0.0,
        },
    ]
    assert report.totals == {
        "groups": 1,
        "partitions": 2,
        "lag": 60,
        "skew": {f"readers in {topic}": 2.0},
    }


def test_all_groups_are_shown_unless_some_are_named(broker: BrokerProcess, topic: str) -> None:
    fill(broker, topic, 10)
    commit(broker, "one", topic, 5)
    commit(broker, "two", topic, 7)

    both = lag(broker.address, clock=ManualClock(NOW_MS))
    only = lag(broker.address, groups=["two"], clock=ManualClock(NOW_MS))

    assert [(each["group"], each["lag"]) for each in rows(both)] == [("one", 5), ("two", 3)]
    assert [each["group"] for each in rows(only)] == ["two"]


def test_the_rate_is_zero_where_nothing_was_written_for_long(
    broker: BrokerProcess, topic: str
) -> None:
    fill(broker, topic, 10)
    commit(broker, "readers", topic, 10)

    report = lag(broker.address, window_seconds=5, clock=ManualClock(NOW_MS + 60_000))

    assert rows(report)[0]["records_per_second"] == 0.0


def test_a_group_without_commits_is_named(broker: BrokerProcess, topic: str) -> None:
    fill(broker, topic, 1)

    with pytest.raises(ConfigError, match="no offset is committed by 'nosuch'"):
        lag(broker.address, groups=["nosuch"])


def test_without_any_group_the_report_is_empty(broker: BrokerProcess) -> None:
    report = lag(broker.address)

    assert report.rows == []
    assert report.totals["lag"] == 0


def test_a_window_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="a window above 0"):
        lag("127.0.0.1:1", window_seconds=0)


def test_the_command_draws_a_plot_and_reports(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    fill(broker, topic, 10)
    commit(broker, "readers", topic, 4)

    ended = subprocess.run(
        [
            *(sys.executable, "-m", "broker", "pipeline", "lag", "--broker", broker.address),
            *("--plot", str(tmp_path / "lag.png"), "-o", "json"),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert json.loads(ended.stdout)["rows"][0]["lag"] == 6
    assert (tmp_path / "lag.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_file_type_that_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    with pytest.raises(ConfigError, match="cannot be drawn"):
        plot(Report((), [], {"lag": 0}), tmp_path / "lag.nosuch")

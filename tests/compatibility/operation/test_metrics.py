"""What a real broker shows of itself: each metric moves with what it counts, no panel is empty."""

import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from broker.cli.monitoring.dashboards import DASHBOARDS
from broker.cli.monitoring.expressions import selectors
from broker.cli.sample_stream import TOPIC
from broker.core.metrics.registry import METRICS
from broker.model.errors import ErrorCode
from tests.compatibility.operation.test_demo import command
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.metrics_page import Samples, metrics_of, value_of
from tests.support.ports import HOST, free_port
from tests.support.quotas import alter
from tests.support.secure_broker import SecureBroker
from tests.support.wire_client import WireClient
from tests.support.wire_requests import (
    commit_offset,
    create_topic,
    end_offset,
    fetch,
    fetch_body,
    find_coordinator,
    produce,
)

# What the load of this test does not move, and where it is moved.
STILL = {
    "polylog_copied_bytes_total": "tests/cluster/test_metrics.py",
    "polylog_under_replicated_partitions": "tests/cluster/test_metrics.py",
    "polylog_under_min_isr_partitions": "tests/cluster/test_metrics.py",
    "polylog_at_min_isr_partitions": "tests/cluster/test_metrics.py",
    "polylog_offline_partitions": "tests/cluster/test_metrics.py",
    "polylog_brokers": "tests/cluster/test_metrics.py",
    "polylog_replica_lag_records": "tests/cluster/test_metrics.py",
    "polylog_throttles_total": "a test below",
    "polylog_throttled_seconds_total": "a test below",
    "polylog_leader_elections_total": "tests/cluster/test_metrics.py",
    "polylog_isr_shrinks_total": "tests/cluster/test_metrics.py",
    "polylog_isr_expansions_total": "tests/cluster/test_metrics.py",
    "polylog_unclean_leader_elections_total": "tests/unit/core/cluster/test_image.py",
    "polylog_request_errors_total": "a test below",
    "polylog_failed_writes_total": "a test below",
    "polylog_rejected_bytes_total": "a test below",
    "polylog_failed_reads_total": "a test below",
    "polylog_topic_failed_writes_total": "a test below",
    "polylog_topic_rejected_bytes_total": "a test below",
    "polylog_topic_failed_reads_total": "a test below",
    "polylog_clock_jumps_total": "tests/compatibility/faults/test_clock_steps.py",
    "polylog_clock_held": "tests/compatibility/faults/test_clock_steps.py",
    "polylog_otlp_exports_total": "tests/compatibility/operation/test_otlp.py",
    "polylog_controller": "always 1 of a single broker",
    "polylog_offline_logs": "0 unless files fail",
    "polylog_damaged_logs": "tests/compatibility/faults/test_damaged_segments.py",
    "polylog_connections_refused_total": "a test below",
    "polylog_logins_total": "tests/unit/core/test_authentication.py",
    "polylog_login_failures_total": "tests/unit/core/test_authentication.py",
    "polylog_certificate_expiry_timestamp_seconds": "a test below",
    "polylog_tls_failures_total": "a test below",
    "polylog_request_queue_size": "0 unless requests wait at this moment",
    "polylog_log_unsynced_bytes": "0 unless a sync runs at this moment",
    "polylog_log_start_offset": "0 until records are deleted",
    "polylog_disk_total_bytes": "of the machine",
    "polylog_disk_free_bytes": "of the machine",
    "polylog_disk_level": "of the machine",
    "polylog_memory_limit_bytes": "of the machine",
    "polylog_max_fds": "of the machine",
    "polylog_start_timestamp_seconds": "of the process",
    "polylog_build_info": "of the process",
    "polylog_metrics_left_out": "tests/unit/core/metrics/test_pages.py",
}


def later_page(broker: BrokerProcess) -> Samples:
    """Return a page that is made after now."""
    time.sleep(1.1)
    return metrics_of(broker)


def open_transaction(client: WireClient, topic: str) -> None:
    made: dict[str, Any] = {}

    def is_made() -> bool:
        body = {"transactional_id": "open", "transaction_timeout_ms": 60_000}
        made.update(client.request("InitProducerId", 1, body))
        return made["error_code"] == 0

    wait_until(is_made, "a producer id")
    body = {
        "v3_and_below_transactional_id": "open",
        "v3_and_below_producer_id": made["producer_id"],
        "v3_and_below_producer_epoch": made["producer_epoch"],
        "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
    }
    client.request("AddPartitionsToTxn", 1, body)


def test_load_moves_each_metric(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    before = metrics_of(broker)
    command("demo", "--records", "500", "--seconds", "0", address=broker.address)
    with WireClient(broker.address) as client, WireClient(broker.address) as waiting:
        assert fetch(client, TOPIC, 0, 0)
        open_transaction(client, TOPIC)
        body = fetch_body(TOPIC, 0, end_offset(client, TOPIC), 1 << 20)
        waiting.send("Fetch", 11, {**body, "max_wait_ms": 60_000})
        after = later_page(broker)

    moved = {each for each in METRICS if after.get(each) != before.get(each)}
    assert METRICS.keys() - moved - STILL.keys() == set()
    assert STILL.keys() <= METRICS.keys()
    assert after["polylog_records_in_total"][0][1] >= 500
    assert after["polylog_open_transactions"] == [({}, 1.0)]
    assert ({"operation": "Fetch"}, 1.0) in after["polylog_waiting_requests"]


def test_no_panel_is_empty_after_a_demo(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    command("demo", "--records", "500", "--seconds", "0", address=broker.address)
    with WireClient(broker.address) as client:
        assert fetch(client, TOPIC, 0, 0)
    found = later_page(broker)

    for dashboard in DASHBOARDS.values():
        for panel in dashboard.panels:
            for query, _ in panel.queries:
                if query.endswith(" or vector(0)"):
                    continue
                for each in selectors(query):
                    assert any(
                        each.matchers.items() <= labels.items()
                        for labels, _ in found.get(each.metric.name, ())
                    ), (dashboard.title, panel.title, query)


def test_connections_that_are_refused_are_counted(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker("max.connections.per.ip=1")
    with WireClient(broker.address) as client:
        client.request("ApiVersions", 0, {})
        with WireClient(broker.address) as refused:
            refused.expect_closed()

    def is_counted() -> bool:
        try:
            found = metrics_of(broker, "/metrics").get("polylog_connections_refused_total", ())
        except (OSError, HTTPException):  # refused, too, while the others are not closed
            return False
        return any(labels == {"reason": "limit"} and count >= 1 for labels, count in found)

    wait_until(is_counted, "it is counted")


def test_errors_are_counted_by_api_and_failures_by_topic(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    records = batch_of([(None, b"x", ())], 1_700_000_000_000)
    large = batch_of([(None, bytes(9_000), ())], 1_700_000_000_000)
    with WireClient(broker.address) as client:
        create_topic(client, "t", max_message_bytes="2000")
        assert produce(client, "t", records)[0] == 0
        assert produce(client, "t", large)[0] == 10
        assert produce(client, "absent", records)[0] == 3
        before = dict_of(metrics_of(broker), "polylog_request_errors_total")
        [part] = client.request("Fetch", 11, fetch_body("t", 0, 99, 1 << 20))["responses"]
        assert part["partitions"][0]["error_code"] == 1
        heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "nobody"}
        refused = client.request("Heartbeat", 0, heartbeat)["error_code"]
        assert refused != 0

    found = later_page(broker)
    errors = dict_of(found, "polylog_request_errors_total")
    assert errors["Produce", "MESSAGE_TOO_LARGE"] == 1
    assert errors["Produce", "UNKNOWN_TOPIC_OR_PARTITION"] == 1
    [name] = [code.name for code in ErrorCode if code.number == refused]
    assert errors["Heartbeat", name] == 1
    assert errors["Fetch", "OFFSET_OUT_OF_RANGE"] == 1
    assert ("Fetch", "OFFSET_OUT_OF_RANGE") not in before
    assert found["polylog_failed_writes_total"] == [({}, 2.0)]
    assert dict_of(found, "polylog_topic_failed_writes_total")["t",] == 1
    assert dict_of(found, "polylog_topic_rejected_bytes_total")["t",] == len(large)
    assert found["polylog_rejected_bytes_total"] == [({}, len(large))]
    assert dict_of(found, "polylog_topic_failed_reads_total")["t",] == 1
    assert found["polylog_failed_reads_total"] == [({}, 1.0)]


def dict_of(found: Samples, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a metric by the values of their labels."""
    return {tuple(labels.values()): value for labels, value in found.get(name, ())}


def test_the_time_lag_of_a_group_is_the_age_of_the_first_record_that_it_has_not_read(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    now_ms = int(time.time() * 1000)
    with WireClient(broker.address) as client:
        create_topic(client, "t")
        for age_s in (5_000, 3_000):
            records = batch_of([(None, b"x", ())], now_ms - age_s * 1000)
            assert produce(client, "t", records)[0] == 0
        assert find_coordinator(client, "g") == 0
        wait_until(lambda: commit_offset(client, "g", "t", 0) == 0, "the group has an offset")
        first = metrics_of(broker)["polylog_group_lag_seconds"]
        assert commit_offset(client, "g", "t", 1) == 0
        second = later_page(broker)["polylog_group_lag_seconds"]
        assert commit_offset(client, "g", "t", 2) == 0
        third = later_page(broker)["polylog_group_lag_seconds"]

    for found, age_s in ((first, 5_000), (second, 3_000)):
        [(labels, seconds)] = found
        assert labels == {"group": "g", "topic": "t", "partition": "0"}
        assert age_s <= seconds < age_s + 900
    assert [seconds for _, seconds in third] == [0.0]


def test_a_client_above_its_quota_rests_and_that_is_counted(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        create_topic(client, "t")
        assert alter(client, {"client-id": None}, producer_byte_rate=1_000) == [0]
        assert value_of(broker, "polylog_throttles_total") == 0
        records = batch_of([(None, bytes(20_000), ())], 1_700_000_000_000)
        assert produce(client, "t", records)[0] == 0

    found = later_page(broker)
    assert found["polylog_throttles_total"] == [({}, 1.0)]
    [(_, seconds)] = found["polylog_throttled_seconds_total"]
    assert seconds > 0


def test_a_listener_with_tls_has_a_certificate_and_counts_failures(tmp_path: Path) -> None:
    broker = SecureBroker(tmp_path)
    broker.expected_complaints = ["TLS handshakes failed"]
    broker.start()
    try:
        with broker.open_raw() as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while client.recv(4096):
                pass
        found = metrics_of(broker)
        [(labels, expires)] = found["polylog_certificate_expiry_timestamp_seconds"]
        assert labels == {"listener": "SSL"}
        assert expires > time.time()
        assert found["polylog_tls_failures_total"] == [({"listener": "SSL"}, 1.0)]
    finally:
        assert broker.stop() == 0


def test_the_lag_of_a_group_is_shown_as_a_share_of_what_is_kept(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    command("demo", "--records", "500", "--seconds", "0", address=broker.address)
    found = metrics_of(broker)
    ends = {labels["partition"]: end for labels, end in of_topic(found, "polylog_log_end_offset")}
    lags = {
        labels["partition"]: lag for labels, lag in of_topic(found, "polylog_group_lag_records")
    }

    assert any(lags.values())
    for labels, share in of_topic(found, "polylog_group_lag_ratio"):
        partition = labels["partition"]
        assert share == pytest.approx(lags[partition] / ends[partition])


def of_topic(found: Samples, name: str) -> list[tuple[dict[str, str], float]]:
    """Return the samples of the demo's topic."""
    return [each for each in found[name] if each[0]["topic"] == TOPIC]


def test_a_page_without_topics_has_the_same_sums(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    command("demo", "--records", "500", "--seconds", "0", address=broker.address)
    small, all_ = metrics_of(broker, "/metrics"), metrics_of(broker)

    assert small["polylog_records_in_total"] == all_["polylog_records_in_total"]
    topics = sum(value for _, value in all_["polylog_topic_records_in_total"])
    assert topics == all_["polylog_records_in_total"][0][1]
    assert not [each for each in small if not METRICS[each].is_small]


def test_the_total_of_records_does_not_fall_with_the_topic(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    command("demo", "--records", "500", "--seconds", "0", address=broker.address)
    before = value_of(broker, "polylog_records_in_total")
    command("demo", "clean", "--yes", address=broker.address)

    assert later_page(broker)["polylog_records_in_total"][0][1] >= before >= 500


def test_workers_have_pages(tmp_path: Path) -> None:
    settings = ["polylog.workers=2"]
    broker = BrokerProcess(tmp_path, settings=settings, listen=f"{HOST}:{free_port(3)}")
    broker.start()
    try:
        found = metrics_of(broker)
        assert found["polylog_brokers"][0][1] == 2
        assert found["polylog_connections_accepted_total"]
    finally:
        assert broker.stop() == 0

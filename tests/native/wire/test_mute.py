"""Quotas on the native paths: what is counted, what is told, and connections that are mute."""

import time
from collections.abc import Callable

import pytest

from broker._native.wire.quota import ClientQuota, QuotaBucket
from broker.codec import schema
from tests.support.native_log import records
from tests.support.native_wire import (
    API_VERSIONS,
    FETCH,
    PRODUCE_VERSIONS,
    Client,
    Fields,
    Wire,
    changed,
    fetch,
    incremental,
    produce,
    request,
    response,
    session_of,
)

HEADER_SIZE = 4
WINDOW_MS = 100
SLOW = 1_000.0  # bytes per second: a request of hundreds rests for a part of a second
UNREACHED = 1e12
SOON_S = 5  # longer than a loaded machine takes for an answer that nothing holds back


class Quotas:
    """The quotas of all clients of a wire: one bucket of each kind, which connections share."""

    def __init__(self, wire: Wire) -> None:
        """Limit nothing yet."""
        self.wire = wire
        self.epoch = 0
        self.asked: list[tuple[object, bytes | None]] = []
        self.produce: QuotaBucket | None = None
        self.fetch: QuotaBucket | None = None
        self.request: QuotaBucket | None = None

    def set(self, **bounds: float) -> None:
        """Set quotas, over two windows, so that a tenth of a second's worth passes at once."""
        for kind, bound in bounds.items():
            setattr(self, kind, QuotaBucket(bound, 2, WINDOW_MS))
        self.epoch += 1
        self.wire.poller.limit_clients(self.find, self.epoch)

    def find(self, session: object, client_id: bytes | None) -> ClientQuota:
        """Return the same buckets for all."""
        self.asked.append((session, client_id))
        return ClientQuota(
            client_id, self.epoch, writes=self.produce, reads=self.fetch, time=self.request
        )


@pytest.fixture
def quotas(wire: Wire) -> Quotas:
    return Quotas(wire)


def exhaust(bucket: QuotaBucket | None, rest_ms: int) -> None:
    """Use up a bucket, so that the next one who uses it rests for about this time."""
    assert bucket
    now_ms = time.monotonic_ns() // 1_000_000
    assert bucket.add(bucket.burst + bucket.bound * rest_ms / 1000, now_ms) > 0


def until_full(client: Client, ask: Callable[[int], bytes]) -> tuple[list[int], Fields]:
    """Fetch until the answer is not throttled; return the throttle times, and that answer."""
    times: list[int] = []
    while (body := client.ask(ask(len(times))))["throttle_time_ms"]:
        assert body["responses"] == []
        times.append(body["throttle_time_ms"])
        assert len(times) < 20
    return times, body


# ---- produce -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_produce_above_the_quota_is_answered_at_once_with_the_throttle_time(
    client: Client, quotas: Quotas, version: int
) -> None:
    quotas.set(produce=SLOW)

    body = client.ask(produce(version, (0, records(size=400))))

    assert body["responses"][0]["partition_responses"][0]["error_code"] == 0
    assert 200 < body["throttle_time_ms"] < 600
    assert client.wire.log().log_end_offset == 1


def test_nothing_more_is_read_until_the_throttle_time_is_over(
    client: Client, quotas: Quotas
) -> None:
    quotas.set(produce=SLOW)
    begun = time.monotonic()
    first = client.ask(produce(13, (0, records(size=300))))

    client.ask(fetch(13, (0, 0)))

    over = time.monotonic() - begun - first["throttle_time_ms"] / 1000
    assert -0.002 < over < SOON_S


def test_the_bytes_of_the_whole_request_count(client: Client, quotas: Quotas) -> None:
    quotas.set(produce=UNREACHED)
    sent = produce(13, (0, records(size=300)))
    client.ask(sent)
    assert quotas.produce
    quotas.produce.bound = (len(sent) - HEADER_SIZE) * 1000 / WINDOW_MS
    now_ms = time.monotonic_ns() // 1_000_000

    assert quotas.produce.excess_ms(-1, now_ms) == 0
    assert quotas.produce.excess_ms(len(sent), now_ms) > 0


def test_other_connections_are_not_mute(wire: Wire, client: Client, quotas: Quotas) -> None:
    quotas.set(produce=SLOW)
    mute_ms = client.ask(produce(13, (0, records(size=20_000))))["throttle_time_ms"]

    begun = time.monotonic()
    wire.connect().ask(fetch(13, (0, 0)))

    assert time.monotonic() - begun < SOON_S < mute_ms / 1000


def test_requests_that_were_sent_before_wait_as_well(client: Client, quotas: Quotas) -> None:
    quotas.set(produce=SLOW)
    one = produce(13, (0, records(size=200)))

    client.send(one * 3)

    assert len(client.frames()) == 1
    assert client.wire.log().log_end_offset == 1
    assert len(client.wait_frames(2)) == 2
    assert client.wire.log().log_end_offset == 3


def test_a_producer_without_acks_is_mute_as_well(client: Client, quotas: Quotas) -> None:
    quotas.set(produce=SLOW)
    begun = time.monotonic()
    client.send(produce(13, (0, records(size=300)), acks=0))

    assert client.wire.log().log_end_offset == 1
    client.ask(fetch(13, (0, 0)))
    assert time.monotonic() - begun > 0.15


def test_the_answer_that_waits_for_its_sync_is_sent_to_a_mute_connection(
    durable: Wire,
) -> None:
    quotas = Quotas(durable)
    quotas.set(produce=SLOW)
    client = durable.connect()

    body = client.ask(produce(13, (0, records(size=3_000))))

    assert body["throttle_time_ms"] > 2_000
    assert body["responses"][0]["partition_responses"][0]["base_offset"] == 0


def test_a_quota_that_is_not_reached_is_not_told(client: Client, quotas: Quotas) -> None:
    quotas.set(produce=UNREACHED, fetch=UNREACHED, request=UNREACHED)

    assert client.ask(produce(13, (0, records())))["throttle_time_ms"] == 0
    body = client.ask(fetch(13, (0, 0)))
    assert body["throttle_time_ms"] == 0
    assert changed(body) == [0]


# ---- whom it limits ------------------------------------------------------------------------------


def test_who_is_limited_is_asked_once_per_client_id_and_change(wire: Wire, quotas: Quotas) -> None:
    session = object()
    client = wire.connect(session)
    quotas.set(produce=UNREACHED)

    for _ in range(3):
        client.ask(produce(13, (0, records())))
    assert quotas.asked == [(session, b"test")]

    quotas.set(produce=UNREACHED)
    client.ask(fetch(13, (0, 0)))
    assert quotas.asked == [(session, b"test")] * 2


def test_another_client_id_of_the_same_connection_is_asked_for(
    client: Client, quotas: Quotas
) -> None:
    quotas.set(produce=UNREACHED)
    one = produce(13, (0, records()))

    for name in (b"test", b"tost", b"tost", b"test"):
        client.ask(one.replace(b"test", name))

    assert [name for _, name in quotas.asked] == [b"test", b"tost", b"test"]


def test_the_dropped_bucket_of_an_owner_is_not_used_any_more(
    client: Client, quotas: Quotas
) -> None:
    quotas.set(produce=UNREACHED)
    client.ask(produce(13, (0, records())))
    assert quotas.produce
    quotas.produce.is_dropped = True
    quotas.produce = QuotaBucket(SLOW, 2, WINDOW_MS)

    assert client.ask(produce(13, (0, records(size=300))))["throttle_time_ms"] > 0


def test_without_quotas_nobody_is_asked_again(client: Client, quotas: Quotas) -> None:
    quotas.set(produce=SLOW)
    quotas.wire.poller.limit_clients(None, 7)

    assert client.ask(produce(13, (0, records(size=900))))["throttle_time_ms"] == 0
    assert quotas.asked == []


# ---- fetch ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
def test_a_fetch_above_the_quota_gets_nothing_and_the_time_after_which_it_would(
    client: Client, quotas: Quotas, version: int
) -> None:
    client.ask(produce(13, (0, records(size=400))))
    quotas.set(fetch=10_000)
    exhaust(quotas.fetch, 400)

    begun = time.monotonic()
    times, full = until_full(client, lambda _: fetch(version, (0, 0)))

    assert 100 < times[0] < 600
    assert -0.002 < time.monotonic() - begun - sum(times) / 1000 < SOON_S
    assert changed(full) == [0]


def test_a_throttled_fetch_does_not_count(client: Client, quotas: Quotas) -> None:
    client.ask(produce(13, (0, records(size=400))))
    quotas.set(fetch=10_000)
    exhaust(quotas.fetch, 500)

    times, _ = until_full(client, lambda _: fetch(13, (0, 0)))

    assert times[0] > 250
    assert times == sorted(times, reverse=True)


def test_no_fetch_is_larger_than_what_may_be_used_at_once(client: Client, quotas: Quotas) -> None:
    """Otherwise it would be above the quota for ever."""
    for _ in range(20):
        client.ask(produce(13, (0, records(size=1_000))))
    quotas.set(fetch=50_000)  # 5,000 bytes at once

    body = client.ask(fetch(13, (0, 0)))

    assert body["throttle_time_ms"] == 0
    assert 3_000 < len(body["responses"][0]["partitions"][0]["records"]) <= 5_000


def test_a_batch_that_is_larger_than_that_is_sent_nevertheless(
    client: Client, quotas: Quotas
) -> None:
    client.ask(produce(13, (0, records(size=4_000))))
    quotas.set(fetch=10_000)  # 1,000 bytes at once

    body = client.ask(fetch(13, (0, 0)))

    assert len(body["responses"][0]["partitions"][0]["records"]) > 4_000
    assert client.ask(fetch(13, (0, 0)))["throttle_time_ms"] > 200


def test_a_throttled_fetch_of_a_session_loses_nothing(client: Client, quotas: Quotas) -> None:
    client.ask(produce(13, (0, records())))
    session = session_of(client, (0, 0), (1, 0))
    client.ask(produce(13, (0, records(size=300)), (1, records())))
    quotas.set(fetch=10_000)
    exhaust(quotas.fetch, 300)

    times, full = until_full(client, lambda count: incremental(session, count + 1, (0, 1)))

    assert len(times) > 0
    assert (full["error_code"], full["session_id"]) == (0, session)
    assert sorted(changed(full)) == [0, 1]


def test_a_throttled_fetch_begins_no_session(client: Client, quotas: Quotas) -> None:
    quotas.set(fetch=10_000)
    exhaust(quotas.fetch, 2_000)

    body = client.ask(fetch(11, (0, 0), session_epoch=0))

    assert (body["error_code"], body["session_id"], body["responses"]) == (0, 0, [])
    assert body["throttle_time_ms"] > 0
    assert len(client.wire.sessions) == 0


def test_a_parked_fetch_is_checked_when_it_is_answered(
    wire: Wire, client: Client, quotas: Quotas
) -> None:
    quotas.set(fetch=10_000)
    client.send(fetch(13, (0, 0), max_wait_ms=30_000))
    assert client.frames() == []
    exhaust(quotas.fetch, 500)

    begun = time.monotonic()
    wire.connect().ask(produce(13, (0, records(size=300))))

    _, body = response(FETCH, 13, client.frame())
    assert body["throttle_time_ms"] > 100
    client.ask(fetch(13, (0, 0)))
    assert time.monotonic() - begun > 0.1


# ---- the time of the loop ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [produce(13, (0, records())), fetch(13, (0, 0))], ids=["produce", "fetch"]
)
def test_the_time_of_the_loop_counts(client: Client, quotas: Quotas, data: bytes) -> None:
    quotas.set(request=0.001)  # percent: 1 us in a tenth of a second

    answers = [client.ask(data)["throttle_time_ms"] for _ in range(2)]

    assert max(answers) > 0


def test_list_offsets_is_left_to_python_while_time_counts(client: Client, quotas: Quotas) -> None:
    quotas.set(request=50)
    body = {"replica_id": -1, "isolation_level": 0, "topics": []}

    client.send(request(2, 7, body))

    assert [each.operation for each in client.wire.slow] == [2]


# ---- requests that Python answers ----------------------------------------------------------------


def test_python_makes_a_connection_mute_with_its_answer(wire: Wire, client: Client) -> None:
    client.send(request(API_VERSIONS, 3, {}) * 2)
    (pending,) = wire.slow
    wire.slow.clear()

    begun = time.monotonic()
    pending.send(schema.response(API_VERSIONS).encode(3, {"api_keys": []}), throttle_ms=150)
    wire.run()

    assert len(client.frames()) == 1
    assert wire.slow == []
    wire.run_until(lambda: bool(wire.slow))
    assert time.monotonic() - begun > 0.148


@pytest.mark.parametrize("is_sent_before", [False, True])
def test_a_connection_that_ends_while_it_is_mute_is_forgotten_at_once(
    wire: Wire, client: Client, quotas: Quotas, is_sent_before: bool
) -> None:
    quotas.set(produce=SLOW)
    client.ask(produce(13, (0, records(size=50_000))))
    if is_sent_before:
        client.send(fetch(13, (0, 0)))

    client.close()

    assert wire.poller.connections == {}
    assert wire.poller.input_bytes == 0


def test_a_mute_connection_is_not_idle(wire: Wire, client: Client, quotas: Quotas) -> None:
    quotas.set(produce=SLOW)
    client.ask(produce(13, (0, records(size=50_000))))

    wire.poller.sweep(0, 0, 0)

    assert not client.is_closed


def test_the_stop_of_a_broker_does_not_wait_for_mute_connections(
    wire: Wire, client: Client, quotas: Quotas
) -> None:
    quotas.set(produce=SLOW)
    client.ask(produce(13, (0, records(size=50_000))))

    wire.poller.stop_streams()

    assert not wire.poller.has_pending_replies


def waiting_for_memory(wire: Wire) -> Client:
    """Return the second of two clients whose frames need more memory than there is."""
    wire.poller.input_bytes_max = wire.poller.input_bytes
    whole = produce(13, (0, records(size=200_000)))
    clients = [wire.connect() for _ in range(2)]
    for client in clients:
        client.send(whole[:8_000])
    assert wire.poller.waiting_for_memory == 1
    return clients[-1]


def test_mute_connections_do_not_keep_memory_that_others_wait_for(
    wire: Wire, quotas: Quotas
) -> None:
    quotas.set(produce=SLOW)
    greedy = wire.connect()
    greedy.send(produce(13, (0, records(size=50_000))) * 2)
    waiting = waiting_for_memory(wire)

    time.sleep(0.05)
    wire.poller.close_stalled_frames(20)

    assert greedy.is_closed
    assert "above its quota, and others wait for its memory" in wire.closed
    assert not waiting.is_closed


def test_a_mute_connection_that_holds_little_is_not_closed_for_memory(
    wire: Wire, quotas: Quotas
) -> None:
    quotas.set(produce=SLOW)
    modest = wire.connect()
    modest.ask(produce(13, (0, records(size=50_000))))
    modest.send(fetch(13, (0, 0)))
    waiting_for_memory(wire)

    time.sleep(0.05)
    wire.poller.close_stalled_frames(20)

    assert not modest.is_closed

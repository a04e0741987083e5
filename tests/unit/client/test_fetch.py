"""One partition's range of offsets, chunk by chunk."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from broker import codec
from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster
from broker.client.pool import Pool
from broker.codec import Fields
from broker.model.errors import ErrorCode, PeerError, RequestError
from broker.model.limits import CLIENT_FETCH_BYTES_MIN
from tests.support.manual_clock import ManualClock
from tests.support.scripted_broker import ScriptedBroker, metadata_of, scripted_broker

ID = "0123456789abcdef" * 2
OTHER_ID = "fedcba9876543210" * 2
ALL = Range("t", ID, 0, 0, 30)
LAST = 29
BATCHES = {
    base: b"".join(
        codec.encode([b"%d" % each for each in range(base, base + 10)], base_offset=base)
    )
    for base in (0, 10, 20)
}


def part(body: Fields) -> Fields:
    """Return the one partition of a Fetch request."""
    found: Fields = body["topics"][0]["partitions"][0]
    return found


def answered(records: bytes, error_code: int = 0, end: int = 30, **more: object) -> Fields:
    """Return a Fetch response."""
    fields = {"records": records, "high_watermark": end, "last_stable_offset": end}
    fields |= {"error_code": error_code, "partition_index": 0}
    return {"responses": [{"topic": "t", "partitions": [fields | more]}]}


def from_log(body: Fields) -> Fields:
    """Return one batch of BATCHES at a time."""
    offset = part(body)["fetch_offset"]
    return answered(BATCHES.get(offset // 10 * 10, b""))


@contextmanager
def serving(
    on_fetch: Callable[[Fields], Fields | None],
    versions: dict[str, range] | None = None,
    topics: list[dict[str, str]] | None = None,
) -> Iterator[tuple[ScriptedBroker, Cluster]]:
    """A broker with topic t, or with a sequence of topic lists; and a cluster of it."""
    known = topics or [{"t": ID}]

    def answer(api: str, _version: int, body: Fields) -> Fields | None:
        if api == "Fetch":
            return on_fetch(body)
        now = known.pop(0) if len(known) > 1 else known[0]
        if now:
            return metadata_of(broker.address, now)
        return metadata_of(broker.address, {"t": ""}, error_code=3)

    with scripted_broker(answer, versions) as broker:
        pool = Pool(ManualClock())
        yield broker, Cluster([broker.address], give_up_seconds=0, pool=pool)
        pool.close()


def test_chunks_are_consecutive_to_the_end_of_the_range() -> None:
    with serving(from_log) as (broker, cluster):
        chunks = list(fetch(cluster, ALL))

    assert [each.next_offset for each in chunks] == [10, 20, 30]
    assert b"".join(each.data for each in chunks) == b"".join(BATCHES.values())
    assert [part(each)["fetch_offset"] for each in broker.of("Fetch")] == [0, 10, 20]


def test_a_range_may_begin_and_end_within_batches() -> None:
    with serving(from_log) as (_, cluster):
        chunks = list(fetch(cluster, ALL._replace(start=15, end=22)))

    assert [bytes(each.data) for each in chunks] == [BATCHES[10], BATCHES[20]]


def test_an_empty_range_sends_no_request() -> None:
    with serving(from_log) as (broker, cluster):
        assert list(fetch(cluster, ALL._replace(start=30))) == []
    assert broker.asked == []


def test_a_truncated_batch_is_fetched_again() -> None:
    def cut(body: Fields) -> Fields:
        offset = part(body)["fetch_offset"]
        return answered(BATCHES[offset] + BATCHES.get(offset + 10, b"")[:-1])

    with serving(cut) as (_, cluster):
        assert [bytes(each.data) for each in fetch(cluster, ALL)] == list(BATCHES.values())


def test_a_topic_is_fetched_by_id_outside_sessions() -> None:
    with serving(from_log) as (broker, cluster):
        list(fetch(cluster, ALL))

    _, version, body = next(each for each in broker.asked if each[0] == "Fetch")
    assert version == 17
    assert body["topics"][0]["topic_id"].hex() == ID
    assert (body["session_id"], body["session_epoch"]) == (0, -1)


@pytest.mark.parametrize(
    ("topic_id", "versions"), [("", range(18)), (ID, range(13)), ("", range(5))]
)
def test_without_topic_ids_a_topic_is_fetched_by_name(topic_id: str, versions: range) -> None:
    with serving(from_log, {"Fetch": versions}) as (broker, cluster):
        assert len(list(fetch(cluster, ALL._replace(topic_id=topic_id)))) == 3

    _, version, body = next(each for each in broker.asked if each[0] == "Fetch")
    assert version == min(versions.stop - 1, 12)
    assert body["topics"][0]["topic"] == "t"


def test_the_last_fetch_asks_for_no_more_than_the_rest_of_the_range() -> None:
    with serving(from_log) as (broker, cluster):
        list(fetch(cluster, ALL, bytes_max=1 << 20))

    first, _, last = (part(each)["partition_max_bytes"] for each in broker.of("Fetch"))
    assert CLIENT_FETCH_BYTES_MIN < last < first < 1 << 20


def test_no_more_is_fetched_at_once_than_the_limit() -> None:
    with serving(from_log) as (broker, cluster):
        list(fetch(cluster, ALL, bytes_max=1000))

    assert {part(each)["partition_max_bytes"] for each in broker.of("Fetch")} == {1000}


def test_batches_emptied_by_compaction_are_skipped() -> None:
    def holed(body: Fields) -> Fields:
        return answered(BATCHES[10] if part(body)["fetch_offset"] < 20 else b"")

    with serving(holed) as (_, cluster):
        assert [each.next_offset for each in fetch(cluster, ALL)] == [20]


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_log_that_ends_before_the_range_is_an_error(is_committed: bool) -> None:
    def short(_body: Fields) -> Fields:
        ends = {"high_watermark": 25, "last_stable_offset": 30}
        if is_committed:
            ends = {"high_watermark": 30, "last_stable_offset": 25}
        return answered(b"", **ends)

    with (
        serving(short) as (_, cluster),
        pytest.raises(
            RequestError, match="t-0 ends at offset 25, expected it to reach 30"
        ) as raised,
    ):
        list(fetch(cluster, ALL, is_committed=is_committed))
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_aborted_transactions_are_returned_with_a_chunk_of_committed_records() -> None:
    aborted = [{"producer_id": 7, "first_offset": 3}]

    def answer(_body: Fields) -> Fields:
        return answered(BATCHES[20], aborted_transactions=aborted)

    with serving(answer) as (broker, cluster):
        [chunk] = fetch(cluster, ALL._replace(start=20), is_committed=True)
        [everything] = fetch(cluster, ALL._replace(start=20))

    assert chunk.aborted == [(7, 3)]
    assert everything.aborted is None
    assert [each["isolation_level"] for each in broker.of("Fetch")] == [1, 0]


def test_an_offset_out_of_range_is_raised_at_once() -> None:
    with (
        serving(lambda _: answered(b"", error_code=1)) as (broker, cluster),
        pytest.raises(RequestError, match=r"Fetch of t-0 at offset 0: .*OFFSET_OUT_OF_RANGE"),
    ):
        list(fetch(cluster, ALL))
    assert len(broker.of("Fetch")) == 1


def test_a_recreated_topic_is_reported_with_both_ids() -> None:
    with (
        serving(lambda _: answered(b"", error_code=100), topics=[{"t": ID}, {"t": OTHER_ID}]) as (
            _,
            cluster,
        ),
        pytest.raises(RequestError, match=f"created again: its id was {ID}, now it is {OTHER_ID}"),
    ):
        list(fetch(cluster, ALL))


def test_a_deleted_topic_is_reported() -> None:
    with (
        serving(lambda _: answered(b"", error_code=100), topics=[{"t": ID}, {}]) as (_, cluster),
        pytest.raises(RequestError, match="there is no topic named 't'"),
    ):
        list(fetch(cluster, ALL))


@pytest.mark.parametrize("error_code", [6, 3, 56])
def test_after_a_leader_change_the_leader_is_looked_up_again(error_code: int) -> None:
    codes = [error_code]

    def moving(body: Fields) -> Fields:
        return answered(b"", error_code=codes.pop()) if codes else from_log(body)

    with serving(moving) as (broker, cluster):
        patient = Cluster([broker.address], give_up_seconds=60, pool=cluster._pool)
        assert [each.next_offset for each in fetch(patient, ALL)] == [10, 20, 30]
    assert len(broker.of("Metadata")) > 1


def test_an_ended_connection_is_reopened() -> None:
    ends = [True]

    def ending(body: Fields) -> Fields | None:
        return None if ends and ends.pop() else from_log(body)

    with serving(ending) as (broker, cluster):
        patient = Cluster([broker.address], give_up_seconds=60, pool=cluster._pool)
        assert [each.next_offset for each in fetch(patient, ALL)] == [10, 20, 30]


@pytest.mark.parametrize(
    "records", [BATCHES[0], BATCHES[20][:-1], BATCHES[20][:10]], ids=["old", "cut", "stub"]
)
def test_bytes_without_the_requested_offset_are_refused(records: bytes) -> None:
    with (
        serving(lambda _: answered(records)) as (_, cluster),
        pytest.raises(PeerError, match="t-0 at offset 20"),
    ):
        list(fetch(cluster, ALL._replace(start=20)))

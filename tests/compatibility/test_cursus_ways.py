"""A batch in an envelope goes the slow way, a bare one the fast way: both do the same."""

import uuid
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.codec import records
from tests import wire_requests
from tests.cursus_client import CursusClient, Message, batch, envelope
from tests.wire_client import WireClient

NUMBERS = st.sampled_from([0, 1, 9, 10, 255, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
EPOCHS = st.sampled_from([0, 1, -1, 42, -(1 << 63), (1 << 63) - 1])
TEXTS = st.sampled_from(
    [b"", b"a", b"x" * 63, b"x" * 64, b"x" * 255, b"x" * 256, b"\xff\0", b'"', b"\\", b"\x7f"]
)
MESSAGES = st.builds(
    Message,
    st.sampled_from([b"", b"v", b"v" * 300, b"\0\xff"]),
    NUMBERS,
    TEXTS,
    TEXTS,
    EPOCHS,
    TEXTS,
    st.sampled_from([0, 1, (1 << 32) - 1]),
    NUMBERS,
    TEXTS,
    st.just(0),
)
ACKS = st.sampled_from([b"", b"0", b"1", b"-1", b"all", b"All", b"2"])


@pytest.fixture
def topic(cursus: CursusClient) -> Iterator[str]:
    """A topic of two partitions."""
    name = f"ways-{uuid.uuid4().hex[:8]}"
    cursus.ask(f"CREATE {name} 2")
    yield name
    cursus.ask(f"DELETE {name}")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(messages=st.lists(MESSAGES, max_size=4), acks=ACKS, is_original=st.booleans())
def test_both_ways_answer_and_store_the_same(
    cursus: CursusClient,
    wire: WireClient,
    topic: str,
    messages: list[Message],
    acks: bytes,
    is_original: bool,
) -> None:
    def sent(partition: int) -> tuple[bytes, list[object]]:
        body = batch(topic, partition, messages, acks=acks, is_original=is_original)
        start = wire_requests.end_offset(wire, topic, partition)
        answer = cursus.answer(body if partition == 0 else envelope(body))
        cursus.answer(batch(topic, partition, [Message(b"end")]))  # durable: so is all before it
        stored = wire_requests.fetch(wire, topic, partition, start)
        return answer, [
            (each.offset, each.key, each.value, each.headers)
            for each in records(stored)
            if each.offset >= start
        ]

    fast, slow = sent(0), sent(1)

    assert fast == slow


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_compacted_topic_takes_no_record_without_a_key_either_way(
    cursus: CursusClient, topic: str, policy: str
) -> None:
    cursus.ask(f"CREATE {topic} cleanup_policy={policy}")
    bare = batch(topic, 0, [Message(b"v", key=b"k"), Message(b"v")])

    answers = [cursus.answer(bare), cursus.answer(envelope(bare))]

    assert [b'"status":"OK"' in each for each in answers] == [policy == "delete"] * 2
    keyed = batch(topic, 0, [Message(b"v", key=b"k")])
    assert b'"status":"OK"' in cursus.answer(keyed)


@pytest.mark.parametrize("is_enveloped", [False, True])
def test_a_batch_larger_than_a_record_batch_may_be_is_cut(
    cursus: CursusClient, topic: str, is_enveloped: bool
) -> None:
    body = batch(topic, 0, [Message(b"x" * 10_000)] * 105)  # a little over max.message.bytes
    assert len(body) > 1 << 20

    answer = cursus.answer(envelope(body) if is_enveloped else body)

    assert b'"last_offset":104' in answer

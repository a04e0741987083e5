"""The native path for Cursus does the same as the Python path.

A batch in an envelope takes the Python path, a bare one the native path; a PUBLISH or APPEND_STREAM
in lower case takes the Python path.
"""

import uuid
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.codec import records
from tests.support import wire_requests
from tests.support.cursus_client import CursusClient, Message, batch, envelope
from tests.support.wire_client import WireClient

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
def topic(cursus_topic: Callable[..., str]) -> str:
    """A topic of two partitions."""
    return cursus_topic(2)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(messages=st.lists(MESSAGES, max_size=4), acks=ACKS, is_original=st.booleans())
def test_native_and_python_paths_answer_and_store_the_same(
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
        cursus.answer(batch(topic, partition, [Message(b"end")]))  # all before it is durable
        stored = wire_requests.fetch(wire, topic, partition, start)
        return answer, [
            (each.offset, each.key, each.value, each.headers)
            for each in records(stored)
            if each.offset >= start
        ]

    fast, slow = sent(0), sent(1)

    assert fast == slow


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_native_and_python_paths_refuse_records_without_a_key_to_a_compacted_topic(
    cursus: CursusClient, topic: str, policy: str
) -> None:
    cursus.ask(f"CREATE {topic} cleanup_policy={policy}")
    bare = batch(topic, 0, [Message(b"v", key=b"k"), Message(b"v")])

    answers = [cursus.answer(bare), cursus.answer(envelope(bare))]

    assert [b'"status":"OK"' in each for each in answers] == [policy == "delete"] * 2
    keyed = batch(topic, 0, [Message(b"v", key=b"k")])
    assert b'"status":"OK"' in cursus.answer(keyed)


@pytest.mark.parametrize("is_enveloped", [False, True])
def test_a_cursus_batch_above_max_message_bytes_is_split(
    cursus: CursusClient, topic: str, is_enveloped: bool
) -> None:
    body = batch(topic, 0, [Message(b"x" * 10_000)] * 105)  # a little above max.message.bytes
    assert len(body) > 1 << 20

    answer = cursus.answer(envelope(body) if is_enveloped else body)

    assert b'"last_offset":104' in answer


# ---- PUBLISH -----------------------------------------------------------------------------------

BLANKS = st.sampled_from([b" ", b"  ", b"\t", b" \r\n", b"\v\f"])
VALUES = {
    b"producerId": [b"p", b"p" * 255, b"p" * 256, b"", b"\xff", b'"', b"a=b"],
    b"producer_id": [b"q"],
    b"partition": [b"0", b"1", b"2", b"01", b"+1", b"", b"x", b"99999999999999999999"],
    b"key": [b"", b"k", b"other", b"\xff\0", b"k" * 2_100, b"message", b"="],
    b"acks": [b"", b"0", b"1", b"-1", b"all", b"All", b"2"],
    b"seqNum": [b"", b"0", b"1", b"7", b"-1", b"%d" % (1 << 63), b"%d" % (1 << 64), b"x"],
    b"epoch": [b"", b"0", b"5", b"-5", b"-", b"%d" % -(1 << 63), b"%d" % (1 << 63), b"5x"],
    b"isIdempotent": [b"", b"true", b"false", b"True", b"maybe"],
    b"txn": [b"", b"t"],
    b"unknown": [b"x"],
}
ARGUMENTS = st.sampled_from(sorted(VALUES)).flatmap(
    lambda name: st.sampled_from(VALUES[name]).map(lambda value: name + b"=" + value)
)
PLACED = st.sampled_from([b"partition=0", b"partition=1", b"key=k", b"key=other"])
TAILS = st.sampled_from(
    [b"message=m", b"message= m \t", b"message=", b"message=a message=b", b"message=\0\xff\0", b"m"]
)
BODIES = st.builds(
    lambda named, others, blank, tail: blank.join(
        [b"", b"topic={}", *([b"producerId=p"] if named else []), *others, tail]
    ),
    st.sampled_from([True, True, True, False]),
    st.tuples(PLACED, st.lists(st.one_of(ARGUMENTS, st.just(b"odd")), max_size=3)).map(
        lambda found: [*found[1], found[0]]
    ),
    BLANKS,
    TAILS,
)


@pytest.fixture
def topics(cursus_topic: Callable[..., str]) -> tuple[str, str]:
    """Two topics of two partitions with names of equal length."""
    return cursus_topic(2), cursus_topic(2)


def stored_in(
    cursus: CursusClient, wire: WireClient, topic: str, starts: list[int]
) -> list[list[object]]:
    """Return the records of each partition from an offset on."""
    found: list[list[object]] = []
    for partition, start in enumerate(starts):
        cursus.answer(batch(topic, partition, [Message(b"end")]))  # all before it is durable
        found.append(
            [
                (each.offset, each.key, each.value, each.headers)
                for each in records(wire_requests.fetch(wire, topic, partition, start))
                if each.offset >= start
            ]
        )
    return found


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=BODIES, is_enveloped=st.booleans())
def test_native_and_python_paths_publish_the_same(
    cursus: CursusClient,
    wire: WireClient,
    topics: tuple[str, str],
    body: bytes,
    is_enveloped: bool,
) -> None:
    def sent(word: bytes, topic: str) -> tuple[bytes, list[list[object]]]:
        starts = [wire_requests.end_offset(wire, topic, each) for each in range(2)]
        command = word + body.replace(b"{}", topic.encode())
        answer = cursus.answer(envelope(command, topic) if is_enveloped else command)
        stored = stored_in(cursus, wire, topic, starts)
        return answer.replace(topic.encode(), b"{}").replace(word, b"PUBLISH"), stored

    fast, slow = (sent(*each) for each in zip((b"PUBLISH", b"publish"), topics, strict=True))

    assert fast == slow


def test_native_and_python_paths_share_one_round_robin(
    cursus: CursusClient, topics: tuple[str, str]
) -> None:
    for word in ("PUBLISH", "publish", "publish", "PUBLISH", "PUBLISH", "PUBLISH"):
        cursus.ask(f"{word} topic={topics[0]} producerId=p message=m")
    cursus.ask(f"CREATE topic={topics[1]} partitioner=round_robin")
    for word in ("PUBLISH", "publish", "PUBLISH", "PUBLISH"):
        cursus.ask(f"{word} topic={topics[1]} producerId=p key=k message=m")

    assert cursus.ask(f"LIST_OFFSETS topic={topics[0]}").count(":latest=3:") == 2
    assert cursus.ask(f"LIST_OFFSETS topic={topics[1]}").count(":latest=2:") == 2


def test_native_and_python_paths_refuse_a_publish_without_a_key_to_a_compacted_topic(
    cursus: CursusClient, topics: tuple[str, str]
) -> None:
    cursus.ask(f"CREATE {topics[0]} cleanup_policy=compact")

    def answers(arguments: str) -> list[str]:
        return [
            cursus.ask(f"{word} topic={topics[0]} producerId=p {arguments} message=m")
            for word in ("PUBLISH", "publish")
        ]

    assert all(each.startswith("ERROR: ") for each in answers("partition=0"))
    assert all(each.startswith('{"status":"OK"') for each in answers("key=k"))


KEYS = st.sampled_from(["k", "K", 'q"', "é", "x" * 1024, "x" * 1025])
VERSIONS = st.sampled_from(["1", "2", "3", "4", "0", "-1", "01", "x", "", "9223372036854775808"])
WORDS = st.sampled_from(["", "a", "x" * 255, "x" * 256, "=", "é"])
SCHEMAS = st.sampled_from(["", "0", "1", "4294967295", "4294967296", "x"])
APPENDS = st.lists(
    st.tuples(KEYS, VERSIONS, WORDS, SCHEMAS, WORDS, st.sampled_from(["", "m", " a b "])),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(appends=APPENDS)
def test_native_and_python_paths_append_the_same_events(
    cursus: CursusClient, wire: WireClient, appends: list[tuple[str, ...]]
) -> None:
    def sent(keyword: str) -> tuple[list[str], list[object]]:
        topic = f"events-{uuid.uuid4().hex[:8]}"
        cursus.ask(f"CREATE topic={topic} partitions=1 event_sourcing=true")
        cursus.ask(f"{keyword} topic={topic} key=k version=1 message=known")
        answers = [
            cursus.ask(
                f"{keyword} topic={topic} key={key} version={version} event_type={event_type}"
                f" schema_version={schema} metadata={metadata} message={message}"
            )
            for key, version, event_type, schema, metadata, message in appends
        ]
        stored = records(wire_requests.fetch(wire, topic, 0, 0))
        return answers, [(each.offset, each.key, each.value, each.headers) for each in stored]

    assert sent("APPEND_STREAM") == sent("append_stream")

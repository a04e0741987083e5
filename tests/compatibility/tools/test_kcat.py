"""kcat (librdkafka) as people use it: list, produce, consume, ask for offsets, join groups."""

import json
from dataclasses import replace

import pytest

from tests.compatibility.programs import UnavailableError
from tests.compatibility.tools.kcat import Kcat, find
from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.wire_client import WireClient

# The first run may fetch the program.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def program() -> Kcat:
    """Find the program, or skip with the reason."""
    try:
        return find()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def kcat(program: Kcat, broker: Broker) -> Kcat:
    """Run it against the broker."""
    return replace(program, address=broker.address)


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic with two partitions."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, 2)
    return topic


def test_metadata_is_listed_as_text_and_as_json(kcat: Kcat, made: str) -> None:
    text = kcat.run("-L", "-t", made)
    listed = json.loads(kcat.run("-L", "-J", "-t", made))

    assert f'topic "{made}" with 2 partitions:' in text
    assert "partition 0, leader 1, replicas: 1, isrs: 1" in text
    assert listed["controllerid"] == 1
    assert [each["id"] for each in listed["brokers"]] == [1]
    [described] = listed["topics"]
    assert [each["leader"] for each in described["partitions"]] == [1, 1]


def test_a_topic_that_does_not_exist_is_listed_as_unknown(kcat: Kcat, topic: str) -> None:
    listed = kcat.run("-L", "-t", topic, "-X", "allow.auto.create.topics=false")

    assert f'topic "{topic}" with 0 partitions: Broker: Unknown topic or partition' in listed


def test_keys_headers_and_tombstones_come_back_as_they_were_sent(kcat: Kcat, made: str) -> None:
    kcat.produce(
        *(made, "-p", "1", "-K:", "-Z", "-H", "of=all", "-H", "of=again"), lines="a:1\nb:2\nc:\n"
    )

    records = kcat.consume(made, "-o", "beginning", "-p", "1")

    assert [(each["key"], each["payload"]) for each in records] == [
        ("a", "1"),
        ("b", "2"),
        ("c", None),
    ]
    assert {tuple(each["headers"]) for each in records} == {("of", "all", "of", "again")}
    assert [(each["partition"], each["offset"]) for each in records] == [(1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read_with_their_checksums(
    kcat: Kcat, made: str, codec: str
) -> None:
    lines = [f"line {number}" for number in range(200)]

    kcat.produce(made, "-p", "0", "-z", codec, lines="\n".join(lines))
    records = kcat.consume(made, "-o", "beginning", "-p", "0", "-X", "check.crcs=true")

    assert [each["payload"] for each in records] == lines


def test_offsets_are_found_by_time_and_from_the_end(kcat: Kcat, made: str) -> None:
    kcat.produce(made, "-p", "0", lines="one\ntwo\nthree")
    first = kcat.consume(made, "-o", "beginning", "-p", "0")[0]["ts"]

    def offset_at(timestamp: int) -> str:
        return kcat.run("-Q", "-t", f"{made}:0:{timestamp}")

    assert offset_at(-2) == f"{made} [0] offset 0\n"
    assert offset_at(-1) == f"{made} [0] offset 3\n"
    assert offset_at(first) == f"{made} [0] offset 0\n"
    assert offset_at(first + 86_400_000) == f"{made} [0] offset -1\n"
    assert [each["payload"] for each in kcat.consume(made, "-p", "0", "-o", "-1")] == ["three"]
    [*_, last] = kcat.consume(made, "-p", "0", "-o", f"s@{first}")
    assert last["payload"] == "three"


def test_a_member_of_a_group_reads_and_the_next_one_resumes(kcat: Kcat, made: str) -> None:
    member = ("-G", f"{made}-group", "-q", "-c")

    kcat.produce(made, "-p", "0", lines="one\ntwo")
    first = kcat.run(*member, "2", "-X", "auto.offset.reset=earliest", made)
    kcat.produce(made, "-p", "0", lines="three")
    second = kcat.run(*member, "1", made)

    assert (first.split(), second.split()) == (["one", "two"], ["three"])


def test_a_transaction_is_read_when_it_is_committed(kcat: Kcat, made: str) -> None:
    kcat.produce(made, "-p", "0", "-X", f"transactional.id={made}", lines="one\ntwo")

    records = kcat.consume(
        made, "-o", "beginning", "-p", "0", "-X", "isolation.level=read_committed"
    )

    assert [(each["offset"], each["payload"]) for each in records] == [(0, "one"), (1, "two")]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_is_served(kcat: Kcat, made: str, acks: str) -> None:
    kcat.produce(made, "-p", "0", "-X", f"acks={acks}", lines="one")

    assert [each["payload"] for each in kcat.consume(made)] == ["one"]


def test_what_cannot_be_is_refused_with_a_reason(kcat: Kcat, made: str) -> None:
    unknown = kcat.run("-P", "-t", made, "-p", "7", stdin="one", fails=True)
    invalid = kcat.run("-C", "-t", "not a name", "-e", fails=True)

    assert "Unknown partition" in unknown
    assert "Broker: Invalid topic" in invalid

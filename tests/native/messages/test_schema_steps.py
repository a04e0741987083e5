"""A message decoded or encoded in steps equals one at once, wherever it is split."""

import gc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.codec import schema
from broker.codec.schema import Message
from broker.model.errors import CodecError, LimitExceeded
from tests.native.messages.test_schema import draw_struct, every_message

if TYPE_CHECKING:
    from broker._native.messages.decoder import Decoding
    from broker._native.messages.encoder import Encoding

METADATA = 3
OFFSET_COMMIT = 8


def decoded(message: Message, version: int, data: bytes, weight: int) -> tuple[dict[str, Any], int]:
    """Return the message, and the number of steps in which it was decoded."""
    decoding = message.decoding(version, data)
    steps = 1
    while (value := decoding.step(weight)) is None:
        steps += 1
    return value, steps


def encoded(
    message: Message, version: int, value: dict[str, Any], weight: int
) -> tuple[bytes, int]:
    """Return the bytes, and the number of steps in which they were encoded."""
    encoding = message.encoding(version, value)
    steps = 1
    while (data := encoding.step(weight)) is None:
        steps += 1
    return data, steps


def to_the_end(work: "Decoding | Encoding", weight: int) -> None:
    """Make every step."""
    while work.step(weight) is None:
        pass


@every_message
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_steps_of_any_weight_give_the_same_result(message: Message, data: st.DataObject) -> None:
    for version in message.versions:
        value = draw_struct(data, message.fields, version)
        at_once = message.encode(version, value)
        weight = data.draw(st.integers(1, 40))

        in_steps, _ = encoded(message, version, value, weight)
        assert in_steps == at_once
        assert decoded(message, version, at_once, weight)[0] == message.decode(version, at_once)[0]


def commit_of(topics: int, partitions: int) -> dict[str, Any]:
    """Return an OffsetCommit: arrays within arrays, and strings."""
    return {
        "group_id": "g",
        "topics": [
            {
                "name": f"topic-{topic}",
                "partitions": [
                    {"partition_index": each, "committed_offset": 7, "committed_metadata": "m"}
                    for each in range(partitions)
                ],
            }
            for topic in range(topics)
        ],
    }


@pytest.mark.parametrize(("topics", "partitions"), [(1, 600), (600, 1), (20, 30)])
@pytest.mark.parametrize("version", [2, 8])
def test_a_step_is_limited_at_any_level_of_nesting(
    topics: int, partitions: int, version: int
) -> None:
    message = schema.request(OFFSET_COMMIT)
    value = commit_of(topics, partitions)
    at_once = message.encode(version, value)
    elements = topics * partitions
    weight = 100  # about ten partitions

    bytes_made, written = encoded(message, version, commit_of(topics, partitions), weight)
    made, read = decoded(message, version, at_once, weight)

    assert bytes_made == at_once
    assert made == message.decode(version, at_once)[0]
    assert elements // 20 <= written <= 2 * elements
    assert elements // 20 <= read <= 2 * elements


def test_string_and_number_elements_count_too() -> None:
    names = schema.request(15)  # DescribeGroups
    groups = {"groups": [f"g{number}" for number in range(1_000)]}
    data = names.encode(5, groups)

    assert encoded(names, 5, groups, 100)[1] == 40
    assert decoded(names, 5, data, 100)[1] == 40

    numbers = schema.request(9)  # OffsetFetch: an array of numbers is one step, then another topic
    topics = [{"name": "t", "partition_indexes": list(range(100))} for _ in range(10)]
    fetch = {"group_id": "g", "topics": topics}
    assert decoded(numbers, 5, numbers.encode(5, fetch), 400)[1] == 10
    assert encoded(numbers, 5, fetch, 400)[1] >= 10


def test_a_truncated_message_is_a_codec_error_in_steps_too() -> None:
    message = schema.request(OFFSET_COMMIT)
    data = message.encode(8, commit_of(2, 3))

    for end in range(len(data)):
        with pytest.raises(CodecError) as in_steps:
            decoded(message, 8, data[:end], 1)
        with pytest.raises(CodecError) as at_once:
            message.decode(8, data[:end])
        assert str(in_steps.value) == str(at_once.value)


def test_an_error_in_a_later_step_names_its_path() -> None:
    message = schema.request(OFFSET_COMMIT)
    value = commit_of(2, 3)
    data = bytearray(message.encode(2, value))
    data[data.rindex(b"m")] = 0xFF
    with pytest.raises(CodecError, match=r"topics\[1\]\.partitions\[2\]\.committed_metadata"):
        decoded(message, 2, bytes(data), 1)

    value["topics"][1]["partitions"][2]["committed_metadata"] = 5
    with pytest.raises(ValueError, match=r"topics\[1\]\.partitions\[2\]\.committed_metadata"):
        encoded(message, 2, value, 1)


def test_one_limit_of_elements_applies_to_all_steps() -> None:
    message = schema.request(OFFSET_COMMIT)
    decoding = message.decoding(8, message.encode(8, commit_of(10, 10)), 500)

    with pytest.raises(LimitExceeded):
        to_the_end(decoding, 10)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_state_is_restored_between_steps(is_enabled: bool) -> None:
    message = schema.request(OFFSET_COMMIT)
    decoding = message.decoding(8, message.encode(8, commit_of(10, 10)))
    try:
        if not is_enabled:
            gc.disable()
        while decoding.step(10) is None:
            assert gc.isenabled() == is_enabled
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()


def test_an_unfinished_decoding_or_encoding_may_be_dropped() -> None:
    message = schema.request(OFFSET_COMMIT)
    value = commit_of(10, 10)
    decoding, encoding = message.decoding(8, message.encode(8, value)), message.encoding(8, value)
    assert decoding.step(10) is None
    assert encoding.step(10) is None
    gc.collect()  # visits the lists that are not full


@pytest.mark.parametrize("weight", [0, -1])
def test_a_step_needs_a_positive_weight(weight: int) -> None:
    message = schema.request(METADATA)
    for work in (message.decoding(1, message.encode(1, {})), message.encoding(1, {})):
        with pytest.raises(ValueError, match="weight"):
            work.step(weight)


def test_no_step_follows_the_last_one() -> None:
    message = schema.request(OFFSET_COMMIT)
    data = message.encode(2, commit_of(2, 3))
    ended: list[Decoding | Encoding] = [message.decoding(2, data), message.encoding(2, {})]
    for work in ended:
        assert work.step(1 << 30) is not None
    failed: list[Decoding | Encoding] = [message.decoding(2, b""), message.encoding(2, {"no": 1})]
    for work in failed:
        with pytest.raises((CodecError, ValueError)):
            work.step(1)
    for work in ended + failed:
        with pytest.raises(ValueError, match="the last step has been made"):
            work.step(1)


def test_a_list_that_changes_between_two_steps_is_refused() -> None:
    message = schema.request(OFFSET_COMMIT)
    value = commit_of(1, 10)
    encoding = message.encoding(2, value)
    assert encoding.step(30) is None
    del value["topics"][0]["partitions"][2:]
    with pytest.raises(ValueError, match="stays as it is"):
        to_the_end(encoding, 30)


def test_structs_are_removed_from_their_lists_as_they_are_written() -> None:
    """Freeing the whole of a long message at its end would be one long step."""
    message = schema.request(OFFSET_COMMIT)
    value = commit_of(2, 3)
    first, second = value["topics"]

    encoding = message.encoding(8, value)
    while encoding.step(1) is None and value["topics"][0] is not None:
        assert value["topics"][1] is second
    assert first["partitions"] == [None] * 3
    to_the_end(encoding, 1)
    assert value["topics"] == [None] * 2


def test_elements_that_are_not_structs_stay_in_their_lists() -> None:
    message = schema.request(15)  # DescribeGroups: strings
    value = {"groups": ["a", "b"]}
    to_the_end(message.encoding(5, value), 1)
    assert value == {"groups": ["a", "b"]}


def test_error_codes_are_counted_at_once_and_in_steps() -> None:
    message = schema.response(OFFSET_COMMIT)
    codes = [0, 3, 3, -1, 0, 25]
    partitions = [{"partition_index": 0, "error_code": code} for code in codes]
    value = {"topics": [{"name": "t", "partitions": partitions}]}
    at_once: dict[int, int] = {3: 1}
    in_steps: dict[int, int] = {}

    message.encode(8, value, at_once)
    to_the_end(message.encoding(8, value, in_steps), 1)

    assert at_once == {3: 3, -1: 1, 25: 1}
    assert in_steps == {3: 2, -1: 1, 25: 1}

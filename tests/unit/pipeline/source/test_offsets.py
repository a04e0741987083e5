"""The JSON of a stream's offsets."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.errors import ConfigError
from broker.pipeline.source.offsets import TopicOffsets, from_json, to_json

ID = "0123456789abcdef" * 2
STANDINGS = st.dictionaries(
    st.text(min_size=1),
    st.builds(
        TopicOffsets,
        st.sampled_from(["", ID]),
        st.dictionaries(st.integers(0, 10_000), st.integers(0, (1 << 63) - 1)),
    ),
)


@given(STANDINGS)
def test_offsets_are_read_as_they_were_written(offsets: dict[str, TopicOffsets]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(STANDINGS)
def test_equal_offsets_have_equal_text(offsets: dict[str, TopicOffsets]) -> None:
    other = {
        name: TopicOffsets(offsets[name].topic_id, dict(reversed(offsets[name].offsets.items())))
        for name in reversed(offsets)
    }

    assert json.dumps(to_json(offsets)) == json.dumps(to_json(other))


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.dictionaries(st.integers(0, 99).map(str), st.integers(0, (1 << 63) - 1)),
    )
)
def test_the_offsets_of_sparks_own_source_are_read(found: dict[str, dict[str, int]]) -> None:
    """Topics may have the names of our own keys: a topic's value is never a number there."""
    for name in ("version", "topics"):
        assert from_json({name: {"0": 3}}) == {name: TopicOffsets("", {0: 3})}
    assert from_json(found) == {
        name: TopicOffsets("", {int(each): offset for each, offset in offsets.items()})
        for name, offsets in found.items()
    }


@pytest.mark.parametrize(
    "found",
    [
        {"a": 3},
        {"a": {"x": 3}},
        {"a": {"0": "3"}},
        {"a": {"0": -1}},
        {"a": {"0": True}},
        {"version": 1},
        {"version": 1, "topics": {"a": {"0": 3}}},
        {"version": 1, "topics": [1]},
    ],
)
def test_text_in_neither_format_is_reported(found: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected those of the format polylog or kafka, got"):
        from_json(found)


def test_a_later_format_version_is_reported() -> None:
    with pytest.raises(ConfigError, match="expected version 1, got 2: a later polylog"):
        from_json({"version": 2, "topics": {}})

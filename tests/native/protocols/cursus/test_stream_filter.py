"""The filter of keys: it never takes a key with a stream for new, and knows nearly all new ones."""

import pytest

from broker._native.protocols.cursus.stream_filter import FilterMemory, KeyFilter

MANY = 100_000


def keys(count: int, name: str = "key") -> list[bytes]:
    return [f"{name}-{number}".encode() for number in range(count)]


def whole(memory: FilterMemory, added: list[bytes]) -> KeyFilter:
    found = KeyFilter(memory)
    found.add(added)
    found.complete()
    return found


@pytest.mark.parametrize("count", [0, 1, 1_000, MANY])
def test_keys_that_were_added_are_not_new_and_most_others_are(count: int) -> None:
    found = whole(FilterMemory(1 << 20), keys(count))

    assert found.is_whole
    assert not any(found.is_new(key) for key in keys(count))
    others = keys(MANY, "other")
    assert sum(found.is_new(key) for key in others) >= 0.96 * len(others)


def test_no_key_is_new_until_all_have_been_added() -> None:
    found = KeyFilter(FilterMemory(1 << 20))
    found.add([b"a"])

    assert not found.is_new(b"b")
    found.complete()
    assert found.is_new(b"b")
    assert not found.is_new(b"a")


def test_memory_is_limited_for_all_filters_and_given_back() -> None:
    memory = FilterMemory(200_000)
    first = whole(memory, keys(MANY))
    assert 190_000 < memory.size <= 200_000
    assert not any(first.is_new(key) for key in keys(MANY))

    second = KeyFilter(memory)
    second.add([b"a"])  # there is no memory for it
    del first
    assert memory.size == 0
    second.add([b"b"])
    second.complete()

    assert memory.size > 0
    assert not second.is_whole
    assert not second.is_new(b"a")
    del second
    assert memory.size == 0


def test_without_memory_no_key_is_new() -> None:
    found = whole(FilterMemory(0), [])

    assert not found.is_whole
    assert not found.is_new(b"a")

"""Inputs without libFuzzer: the one at hand outlives a crash, and cheap ones are many."""

import mmap
import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import blind
from tests.fuzz.mutations import QUICK_SIZE_MAX, quickly_mutated


def test_the_input_at_hand_is_in_a_file_when_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bytes] = []

    def target(data: bytes) -> None:
        tried.append(data)
        assert len(tried) < 3

    class AbortedError(BaseException):
        pass

    def abort() -> None:
        raise AbortedError

    monkeypatch.setattr(os, "abort", abort)
    current = tmp_path / "current"
    current.write_bytes(bytes(blind.CURRENT_BYTES))
    with current.open("r+b") as file:
        shown = mmap.mmap(file.fileno(), blind.CURRENT_BYTES)
        with pytest.raises(AbortedError):
            blind.try_some(target, [b"one", b"another input"], Random(1), shown)
        shown.flush()

    assert len(tried) == 3
    assert blind.read_current(current) == tried[-1]


def test_inputs_that_take_long_are_tried_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0

    def target(data: bytes) -> None:
        nonlocal now_ns
        now_ns += len(data)

    monkeypatch.setattr(time, "process_time_ns", lambda: now_ns)

    found = blind.more_of_cheap_ones(target, [b"x", b"y", b"z", b"x" * 100])

    assert found.count(b"x") == found.count(b"z") == blind.CHEAP_TIMES
    assert found.count(b"x" * 100) == 1


def test_mutated_inputs_differ_and_are_bounded() -> None:
    random = Random(1)

    found = {quickly_mutated(random, [b"some input", bytes(5000)]) for _ in range(1000)}

    assert len(found) > 800
    assert max(map(len, found)) <= QUICK_SIZE_MAX + 4 * 64

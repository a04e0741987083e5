"""For any input the codec returns values or raises CodecError, fast and in little memory.

A bounded run on the ordinary build: Kafka's own bytes, inputs that once caused a failure, and as
many mutations of them as `--fuzz-inputs` says. `make fuzz` continues with sanitizers.
"""

import resource
import time
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.inputs import OPTIONS_SIZE
from tests.fuzz.mutations import mutated
from tests.fuzz.seeds import CORPUS, kept, seeds
from tests.fuzz.targets import TARGETS, load

INPUT_SECONDS_MAX = 1.0  # of the processor's; most take a few hundred microseconds
MEMORY_MIB_MAX = 128  # that a target's inputs add to what the process has had at once

every_target = pytest.mark.parametrize("target", TARGETS)


def feed(target: str, data: bytes) -> None:
    run = load(target)
    started = time.process_time()
    try:
        run(data)
    except BaseException:
        print(f"{target}: {data.hex()}")
        raise
    assert time.process_time() - started < INPUT_SECONDS_MAX, data.hex()


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown < MEMORY_MIB_MAX


@every_target
def test_inputs_that_once_failed_and_inputs_from_kafka_are_read(target: str) -> None:
    inputs = seeds(target)

    assert inputs
    for data in inputs:
        feed(target, data)


@every_target
def test_mutated_inputs_are_read_or_refused(
    target: str, choices: Random, pytestconfig: pytest.Config
) -> None:
    inputs = seeds(target)

    for _ in range(pytestconfig.getoption("--fuzz-inputs")):
        feed(target, mutated(choices, inputs))


@every_target
def test_arbitrary_bytes_are_read_or_refused(target: str) -> None:
    @settings(max_examples=50, deadline=None, derandomize=True, database=None)
    @given(st.binary(max_size=OPTIONS_SIZE), st.binary(max_size=200))
    def any_bytes(options: bytes, content: bytes) -> None:
        feed(target, options.ljust(OPTIONS_SIZE, b"\0") + content)

    any_bytes()


def test_every_corpus_input_belongs_to_a_target_and_is_small() -> None:
    assert {file.stem for file in CORPUS.iterdir()} <= set(TARGETS)
    assert all(len(data) <= 4096 for target in TARGETS for data in kept(target))

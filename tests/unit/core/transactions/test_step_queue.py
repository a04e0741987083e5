"""Work on many partitions, a limited number of them per turn of the loop."""

from collections.abc import Iterator

import pytest

from broker.core.transactions.step_queue import StepQueue
from broker.model import limits


class Work:
    """Turns of three steps each, and what they have done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.woken = 0
        self.turns = StepQueue(self.wake)

    def wake(self) -> None:
        self.woken += 1

    def steps(self, name: str, count: int) -> Iterator[None]:
        for _ in range(count):
            self.done.append(name)
            yield
        self.done.append(name.upper())


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.setattr(limits, "MARKERS_PER_TURN", 3)
    return Work()


def test_a_little_work_is_done_immediately(work: Work) -> None:
    work.turns.begin(work.steps("a", 2))

    assert work.done == ["a", "a", "A"]
    assert (work.turns.wants_turn, work.woken) == (False, 0)


def test_much_work_takes_several_turns(work: Work) -> None:
    work.turns.begin(work.steps("a", 5))
    assert work.done == ["a"] * 3
    assert (work.turns.wants_turn, work.woken) == (True, 1)

    work.turns.tick()

    assert work.done == [*["a"] * 5, "A"]
    assert not work.turns.wants_turn


def test_queued_work_is_not_begun_immediately(work: Work) -> None:
    work.turns.queue(work.steps("a", 1))

    assert work.done == []
    assert work.turns.wants_turn


def test_all_begun_work_shares_a_turn(work: Work) -> None:
    for name in "abc":
        work.turns.queue(work.steps(name, 2))

    work.turns.tick()

    assert work.done == ["a", "a", "A", "b"]


def test_work_without_steps_counts_as_a_step(work: Work) -> None:
    for name in "abcd":
        work.turns.queue(work.steps(name, 0))

    work.turns.tick()

    assert work.done == ["A", "B", "C"]


def test_all_work_begun_in_a_turn_shares_its_budget(work: Work) -> None:
    work.turns.begin(work.steps("a", 2))
    work.turns.begin(work.steps("b", 2))

    assert work.done == ["a", "a", "A", "b"]
    assert (work.turns.wants_turn, work.woken) == (True, 1)


def test_work_begun_after_a_turns_work_gets_the_rest_of_the_budget(work: Work) -> None:
    work.turns.queue(work.steps("a", 2))

    work.turns.tick()
    work.turns.begin(work.steps("b", 2))

    assert work.done == ["a", "a", "A", "b"]


def test_work_begun_within_a_step_shares_the_budget_of_its_turn(work: Work) -> None:
    def outer() -> Iterator[None]:
        work.turns.begin(work.steps("b", 5))
        yield
        work.turns.begin(work.steps("c", 5))
        yield

    work.turns.begin(outer())

    assert work.done == ["b", "b", "b"]


def test_a_budget_that_was_used_up_is_renewed_in_the_next_turn(work: Work) -> None:
    for name in "abc":
        work.turns.begin(work.steps(name, 0))
    assert work.turns.wants_turn
    assert work.woken == 1

    work.turns.tick()
    work.turns.begin(work.steps("d", 1))

    assert work.done == ["A", "B", "C", "d", "D"]


def test_failing_work_is_dropped_and_the_rest_continues(work: Work) -> None:
    def failing() -> Iterator[None]:
        yield
        raise ValueError("broken")

    work.turns.queue(failing())
    work.turns.queue(work.steps("a", 1))

    with pytest.raises(ValueError, match="broken"):
        work.turns.tick()
    work.turns.tick()

    assert work.done == ["a", "A"]

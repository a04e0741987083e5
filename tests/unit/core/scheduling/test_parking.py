"""The memory of waiting requests: which are answered early, and how much is left for others."""

from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from broker.core.scheduling.parking import Parking

MOST = 100


class Parked:
    """Polls by name, and those that were woken."""

    def __init__(self) -> None:
        """Begin without polls."""
        self.parking = Parking(MOST)
        self.woken: list[str] = []
        self._polls: dict[str, ExitStack] = {}
        self._weights: dict[str, int] = {}

    def poll(self, name: str, weight: int) -> None:
        """Let a poll wait."""
        self.parking.enter(weight, is_poll=True)
        self._weights[name] = weight
        self._polls[name] = ExitStack()
        wake = self.parking.poll(weight, lambda: self.woken.append(name))
        self._polls[name].enter_context(wake)

    def answer(self, name: str) -> None:
        """End a poll."""
        self._polls.pop(name).close()
        self.parking.leave(self._weights.pop(name), was_woken=name in self.woken)


def test_polls_wait_within_the_budget() -> None:
    parked = Parked()

    for name in "abcd":
        parked.poll(name, MOST // 4)

    assert parked.woken == []
    assert parked.parking.bytes == MOST


def test_the_largest_poll_is_woken_first_and_of_equal_ones_the_longest_waiting() -> None:
    parked = Parked()
    for name, weight in (("small", 4), ("large", 40), ("large too", 40), ("fits", 16)):
        parked.poll(name, weight)

    parked.poll("one more", 16)
    assert parked.woken == ["large"]
    parked.poll("another", 16)
    assert parked.woken == ["large"], "what was woken leaves room, also before it is answered"
    parked.poll("a third", 16)
    assert parked.woken == ["large", "large too"]

    for name in ("large", "large too"):
        parked.answer(name)
    assert parked.parking.bytes == 4 + 4 * 16


def test_a_poll_larger_than_the_whole_budget_is_woken_at_once() -> None:
    parked = Parked()
    parked.poll("small", 10)

    parked.poll("huge", MOST + 1)

    assert parked.woken == ["huge"]


def test_other_waits_wake_polls() -> None:
    parked = Parked()
    parked.poll("poll", 60)

    parked.parking.enter(60)  # for the disk

    assert parked.woken == ["poll"]


def test_waits_that_cannot_be_ended_leave_space_for_smaller_requests() -> None:
    parking = Parking(MOST)
    parked = 0
    while parking.has_room_for(30):
        parking.enter(30)
        parked += 30

    assert 0 < parked <= MOST - 30
    assert parking.has_room_for(10)


def test_polls_do_not_reduce_the_budget_of_others() -> None:
    parked = Parked()
    parked.poll("poll", MOST)

    assert parked.parking.has_room_for(MOST)


@given(
    st.lists(st.tuples(st.sampled_from(["poll", "wait", "end"]), st.integers(1, 60)), max_size=100)
)
def test_for_any_sequence_the_waiting_requests_fit_the_budget(
    steps: list[tuple[str, int]],
) -> None:
    parked = Parked()
    waits: list[int] = []
    polls: dict[str, int] = {}
    for number, (step, weight) in enumerate(steps):
        if step == "poll":
            polls[str(number)] = weight
            parked.poll(str(number), weight)
        elif step == "wait" and parked.parking.has_room_for(weight):
            waits.append(weight)
            parked.parking.enter(weight)
        elif step == "end" and waits:
            parked.parking.leave(waits.pop(weight % len(waits)), was_woken=False)
        elif step == "end" and polls:
            name = sorted(polls)[weight % len(polls)]
            del polls[name]
            parked.answer(name)

        assert parked.parking.bytes == sum(waits) + sum(polls.values())
        stays = [weight for name, weight in polls.items() if name not in parked.woken]
        assert sum(stays) + sum(waits) <= MOST
    for name in list(polls):
        parked.answer(name)
    assert parked.parking.bytes == sum(waits)

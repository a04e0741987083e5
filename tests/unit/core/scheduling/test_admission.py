"""Admission of requests that become many objects: which run together, wait, or are refused."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.core.scheduling.admission import Admission, Parked, Share
from broker.core.scheduling.parking import Parking
from broker.model.errors import PeerError


class Turns:
    """Requests by name: each runs until it is told to end."""

    def __init__(self) -> None:
        """Allow ten units together, and as many waiting."""
        self.parking = Parking(bytes_max=30)
        self.admission = Admission(10, 10, self.parking)
        self.under_way: list[str] = []
        self.shares: dict[str, Share] = {}
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, weight: int, size: int = 1, owner: object = None) -> None:
        """Let a request of a connection arrive."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._serve(name, size, weight, owner))
        await settle()

    async def end(self, name: str) -> None:
        """End a request."""
        self._ends[name].set()
        await settle()

    async def park(self, name: str) -> None:
        """Let a request wait for something."""
        self.shares[name].park()
        await settle()

    async def _serve(self, name: str, size: int, weight: int, owner: object) -> None:
        async with self.admission.turn(owner, size, weight) as share:
            self.shares[name] = share
            self.under_way.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.under_way.remove(name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def played(scenario: Callable[[Turns], Awaitable[None]]) -> None:
    async def play() -> None:
        turns = Turns()
        await scenario(turns)
        for task in turns.tasks.values():
            task.cancel()
        await asyncio.gather(*turns.tasks.values(), return_exceptions=True)

    asyncio.run(play())


def test_requests_within_the_budget_run_and_others_follow_in_order() -> None:
    async def scenario(turns: Turns) -> None:
        for name in "abcde":
            await turns.ask(name, 4)
        assert turns.under_way == ["a", "b"]

        await turns.end("b")
        assert turns.under_way == ["a", "c"]
        await turns.end("a")
        assert turns.under_way == ["c", "d"]

    played(scenario)


def test_a_request_larger_than_the_whole_budget_runs_alone() -> None:
    async def scenario(turns: Turns) -> None:
        await turns.ask("huge", 1_000)
        await turns.ask("small", 1)
        assert turns.under_way == ["huge"]

        await turns.end("huge")
        assert turns.under_way == ["small"]

    played(scenario)


def test_when_the_queue_is_full_the_largest_request_is_refused_whoever_came_last() -> None:
    async def scenario(turns: Turns) -> None:
        await turns.ask("a", 10)
        await turns.ask("b", 10, size=3)
        await turns.ask("c", 10, size=7)
        await turns.ask("d", 10, size=1)

        with pytest.raises(PeerError, match="more than 10 bytes of long requests wait"):
            await turns.tasks["c"]
        await turns.end("a")
        assert turns.under_way == ["b"]
        await turns.ask("e", 10, size=10)
        with pytest.raises(PeerError):
            await turns.tasks["e"]
        assert not turns.tasks["d"].done()

    played(scenario)


# ---- the order of admission
# ------------------------------------------------------------------------


def test_a_short_request_does_not_wait_for_the_long_ones_before_it() -> None:
    async def scenario(turns: Turns) -> None:
        for place in range(5):
            await turns.ask(f"long {place}", 10, owner=place)
        await turns.ask("short", 1, owner="short")

        await turns.end("long 0")

        assert turns.under_way == ["short"]
        await turns.end("short")
        assert turns.under_way == ["long 1"]

    played(scenario)


def test_a_connection_that_used_more_is_served_after_one_that_used_less() -> None:
    async def scenario(turns: Turns) -> None:
        await turns.ask("other", 10, owner="other")
        for place in range(3):
            await turns.ask(f"much {place}", 10, owner="much")
        await turns.ask("little", 10, owner="little")

        await turns.end("other")
        assert turns.under_way == ["much 0"]
        await turns.end("much 0")
        assert turns.under_way == ["little"]

    played(scenario)


def test_long_requests_are_served_however_many_short_ones_arrive() -> None:
    async def scenario(turns: Turns) -> None:
        await turns.ask("first", 10)
        await turns.ask("long", 10)
        await turns.ask("short 0", 2)
        await turns.end("first")
        for place in range(10):
            await turns.ask(f"short {place + 1}", 2)
            await turns.end(f"short {place}")
            if turns.under_way == ["long"]:
                return
        raise AssertionError("the long request waits for all others")

    played(scenario)


# ---- parked requests
# -------------------------------------------------------------------------------


def test_a_parked_request_does_not_occupy_the_budget() -> None:
    async def scenario(turns: Turns) -> None:
        await turns.ask("polls", 10)
        await turns.ask("next", 10)

        await turns.park("polls")

        assert turns.under_way == ["polls", "next"]
        assert turns.parking.bytes == 10
        await turns.end("polls")
        assert turns.parking.bytes == 0

    played(scenario)


def test_a_request_that_cannot_be_parked_waits_and_smaller_ones_pass_it() -> None:
    async def scenario(turns: Turns) -> None:
        for name in ("waits", "waits too"):
            await turns.ask(name, 10)
            await turns.park(name)
        await turns.ask("large", 8)
        await turns.ask("small", 4)
        assert turns.under_way == ["waits", "waits too", "small"]

        await turns.end("small")
        assert turns.under_way == ["waits", "waits too"]
        await turns.end("waits")  # it was parked: no running request has ended
        assert turns.under_way == ["waits too", "large"]

    played(scenario)


def test_a_request_is_parked_from_its_first_wait() -> None:
    async def work(share: Share, parking: Parking) -> int:
        await asyncio.sleep(0)
        assert parking.bytes == 0, "others have their turn: that is no wait"
        waits = asyncio.ensure_future(asyncio.sleep(0))
        await waits
        assert parking.bytes == share.weight
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return 1
        raise AssertionError

    async def scenario(turns: Turns) -> None:
        async with turns.admission.turn(None, 1, 10) as share:
            task = asyncio.ensure_future(_of(Parked(work(share, turns.parking), share)))
            await settle()
            task.cancel()
            assert await task == 1
        assert turns.parking.bytes == 0

    played(scenario)


async def _of(work: Parked[int]) -> int:
    return await work


# ---- cancelled requests
# ----------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["a", "b"])
def test_a_cancelled_request_passes_its_place_on(gone: str) -> None:
    async def scenario(turns: Turns) -> None:
        for name in "abc":
            await turns.ask(name, 10)

        turns.tasks[gone].cancel()
        await settle()
        if gone == "b":
            await turns.end("a")

        assert turns.under_way == ["b" if gone == "a" else "c"]

    played(scenario)


def test_a_request_cancelled_as_it_is_admitted_passes_its_place_on() -> None:
    async def scenario(turns: Turns) -> None:
        for name in "abc":
            await turns.ask(name, 10)

        turns.tasks["a"].cancel()
        await asyncio.sleep(0)  # its place is given to b, which does not know yet
        turns.tasks["b"].cancel()
        await settle()

        assert turns.under_way == ["c"]

    played(scenario)


def test_a_long_poll_knows_that_its_memory_is_needed() -> None:
    parking = Parking(bytes_max=10)
    share = Share(8, parking)
    woken: list[bool] = []

    with share.polling(lambda: woken.append(True)):
        before = share.is_needed
        parking.enter(8)  # another request begins to wait for its sync

    assert (before, share.is_needed, woken) == (False, True, [True])


def test_a_long_poll_that_is_the_largest_ends_itself_and_no_smaller_one() -> None:
    parking = Parking(bytes_max=10)
    small, large = Share(4, parking), Share(8, parking)
    woken: list[str] = []

    with (
        small.polling(lambda: woken.append("small")),
        large.polling(lambda: woken.append("large")),
    ):
        pass

    assert woken == ["large"]

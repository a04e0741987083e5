"""Links to other brokers: marks, order, sharing, bounds, and what fails."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.core.links import Dialect, Lengths, Lines, Links, NoRoomError, Upstreams
from broker.model import limits
from broker.model.errors import Unreachable
from tests.support.scripted_upstream import Answer, Nodes, Upstream

FRAMES = Dialect("cursus", Lengths(1 << 24), accepted=b"yes")
LINES = Dialect("v1", Lines(1 << 24), accepted=b"yes\n")
MARK = b"mark"


def _echo(_: int, body: bytes) -> bytes:
    return b"yes" if body.startswith(MARK) else b"<" + body + b">"


def _run(
    work: Callable[[Links, Upstream], Awaitable[None]],
    answer: Answer = _echo,
    *,
    count_max: int = 10,
    is_lines: bool = False,
) -> None:
    async def run() -> None:
        async with Upstream(answer, is_lines=is_lines) as upstream:
            links = Links(Nodes(b2=upstream.address), lambda: count_max)
            try:
                await asyncio.wait_for(work(links, upstream), 20)
            finally:
                links.close()

    asyncio.run(run())


async def _ask(links: Links, upstreams: Upstreams, body: bytes, mark: bytes = MARK) -> bytes:
    return await links.ask(upstreams, 2, FRAMES, mark, body)


def test_a_mark_comes_before_the_first_request_and_again_when_it_has_changed() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        one = links.upstreams()
        assert await _ask(links, one, b"a") == b"<a>"
        assert await _ask(links, one, b"b") == b"<b>"
        assert await _ask(links, one, b"c", b"mark 2") == b"<c>"
        assert upstream.asked == [(1, each) for each in (MARK, b"a", b"b", b"mark 2", b"c")]

    _run(work)


def test_a_greeting_is_sent_once_before_everything_else() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        dialect = FRAMES._replace(greeting=b"hello")
        for _ in range(2):
            await links.ask(links.upstreams(), 2, dialect, MARK, b"a")
        assert upstream.bodies == [b"hello", MARK, b"a"] * 2

    _run(work)


def test_the_link_of_a_connection_serves_another_one_after_its_end() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        one, two, three = (links.upstreams() for _ in range(3))
        await _ask(links, one, b"a")
        await _ask(links, two, b"b")
        assert upstream.connections == 2
        one.close()
        await _ask(links, three, b"c")
        assert upstream.connections == 2
        assert upstream.asked[-1] == (1, b"c")

    _run(work)


def test_more_connections_than_links_share_them() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        connections = [links.upstreams() for _ in range(9)]
        answers = await asyncio.gather(
            *(_ask(links, each, b"%d" % number) for number, each in enumerate(connections))
        )
        assert answers == [b"<%d>" % number for number in range(9)]
        assert links.count <= 2

    _run(work, count_max=2)


def test_what_needs_a_link_while_all_are_used_waits_for_one() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        async with links.taken(links.upstreams(), 2, FRAMES, 20):
            waiting = asyncio.ensure_future(_ask(links, links.upstreams(), b"a"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
        assert await waiting == b"<a>"

    _run(work, count_max=1)


def test_streams_leave_links_to_requests_however_many_there_are() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        async with links.stream(links.upstreams(), 2, FRAMES):
            with pytest.raises(NoRoomError):
                async with links.stream(links.upstreams(), 2, FRAMES):
                    pass
            assert await _ask(links, links.upstreams(), b"a") == b"<a>"
        async with links.stream(links.upstreams(), 2, FRAMES):
            pass

    _run(work, count_max=3)


@pytest.mark.parametrize("failing", [b"a", MARK])
def test_a_closed_link_fails_its_request_and_the_next_one_connects_again(failing: bytes) -> None:
    left = [1]

    def answer(number: int, body: bytes) -> bytes | None:
        if body == failing and left:
            left.pop()
            return None
        return _echo(number, body)

    async def work(links: Links, upstream: Upstream) -> None:
        one = links.upstreams()
        with pytest.raises(Unreachable):
            await _ask(links, one, b"a")
        assert await _ask(links, one, b"a") == b"<a>"
        assert links.count == 1

    _run(work, answer)


def test_a_broker_that_refuses_the_mark_gets_no_request() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        with pytest.raises(Unreachable, match="refuses forwarded requests"):
            await _ask(links, links.upstreams(), b"a")
        assert upstream.bodies == [MARK]
        assert links.count == 0

    _run(work, lambda _, __: b"no")


def test_a_request_without_an_answer_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FORWARDED_ANSWER_SECONDS", 0.05)

    async def answer(number: int, body: bytes) -> bytes:
        await asyncio.sleep(20 if body == b"slow" else 0)
        return _echo(number, body)

    async def work(links: Links, upstream: Upstream) -> None:
        with pytest.raises(Unreachable, match="no answer in time"):
            await _ask(links, links.upstreams(), b"slow")
        assert links.count == 0

    _run(work, answer)


def test_a_stream_waits_a_bounded_time_for_a_link_and_has_any_time_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FORWARDED_ANSWER_SECONDS", 0.05)

    async def work(links: Links, upstream: Upstream) -> None:
        async with links.taken(links.upstreams(), 2, FRAMES, 20):
            with pytest.raises(Unreachable, match="in time"):
                async with links.stream(links.upstreams(), 2, FRAMES):
                    pass
        async with links.stream(links.upstreams(), 2, FRAMES) as link:
            await asyncio.sleep(0.1)
            await link.request(MARK, b"a")
            assert await link.next() == b"<a>"

    _run(work, count_max=1)


def test_requests_fail_at_once_when_their_broker_leaves_the_cluster() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        asked = asyncio.ensure_future(_ask(links, links.upstreams(), b"a"))
        while b"a" not in upstream.bodies:
            await asyncio.sleep(0.01)
        links.retain({1, 3})
        with pytest.raises(Unreachable):
            await asked
        assert links.count == 0

    async def answer(number: int, body: bytes) -> bytes:
        await asyncio.sleep(20 if body == b"a" else 0)
        return _echo(number, body)

    _run(work, answer)


def test_a_broker_that_is_not_in_the_cluster_or_does_not_listen_is_unreachable() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        with pytest.raises(Unreachable, match="not in the cluster"):
            await links.ask(links.upstreams(), 3, FRAMES, MARK, b"a")
        await upstream.__aexit__()
        with pytest.raises(Unreachable):
            await _ask(links, links.upstreams(), b"a")
        assert links.count == 0

    _run(work)


def test_a_request_whose_client_leaves_closes_its_link() -> None:
    async def answer(number: int, body: bytes) -> bytes:
        await asyncio.sleep(20 if body == b"slow" else 0)
        return _echo(number, body)

    async def work(links: Links, upstream: Upstream) -> None:
        one = links.upstreams()
        asked = asyncio.ensure_future(_ask(links, one, b"slow"))
        while b"slow" not in upstream.bodies:
            await asyncio.sleep(0.01)
        asked.cancel()
        one.close()
        await asyncio.wait([asked])
        assert links.count == 0
        assert await _ask(links, links.upstreams(), b"b") == b"<b>"
        assert upstream.asked[-1][0] == 2

    _run(work, answer)


def test_idle_links_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FORWARDING_IDLE_SECONDS", 0.05)

    async def work(links: Links, upstream: Upstream) -> None:
        held, left = links.upstreams(), links.upstreams()
        await _ask(links, held, b"a")
        await _ask(links, left, b"b")
        left.close()
        while links.count > 0:
            await asyncio.sleep(0.01)
        assert await _ask(links, held, b"c") == b"<c>"

    _run(work)


def test_long_frames_are_sent_and_received_whole() -> None:
    long = bytes(range(256)) * (3 << 12)  # 3 MiB

    async def work(links: Links, upstream: Upstream) -> None:
        asked = [_ask(links, links.upstreams(), b"%d" % each + long) for each in range(8)]
        for number, answer in enumerate(await asyncio.gather(*asked)):
            assert answer == b"<%d" % number + long + b">"

    _run(work)


def test_an_answer_that_is_too_long_is_refused() -> None:
    async def work(links: Links, upstream: Upstream) -> None:
        short = FRAMES._replace(framing=Lengths(100))
        with pytest.raises(Unreachable, match="announced"):
            await links.ask(links.upstreams(), 2, short, MARK, bytes(200))

    _run(work)


@pytest.mark.parametrize("size", [1, (64 << 10) - 1, 64 << 10, 200_000, 5 << 20])
def test_lines_of_any_length_are_received_whole(size: int) -> None:
    def answer(_: int, body: bytes) -> bytes:
        return b"yes\n" if body == MARK else b"x" * size + b"\n"

    async def work(links: Links, upstream: Upstream) -> None:
        one = links.upstreams()
        for _ in range(2):
            assert await links.ask(one, 2, LINES, MARK, b"line") == b"x" * size + b"\n"
        assert upstream.bodies == [MARK, b"line", b"line"]

    _run(work, answer, is_lines=True)

"""Another broker of a cluster that answers forwarded requests as a test tells it.

`Elsewhere` are its brokers: what links need to know of them, and servers in the running loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Self

from broker.core.cluster_view import Leadership
from broker.core.links import Links
from broker.core.topics.topic import Topic
from broker.model.address import Address

# The number of the connection and a request's body → an answer, or several frames of a stream; None
# closes the connection.
Answered = bytes | list[bytes] | None
Answer = Callable[[int, bytes], Awaitable[Answered] | Answered]


class Upstream:
    """One broker: it records what is sent on its connections."""

    def __init__(self, answer: Answer, *, is_lines: bool = False) -> None:
        """Answer lines, or frames with a length."""
        self.answer = answer
        self.asked: list[tuple[int, bytes]] = []
        self.connections = 0
        self.closed = 0
        self._is_lines = is_lines
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def bodies(self) -> list[bytes]:
        """What was sent, on all connections."""
        return [body for _, body in self.asked]

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop to listen."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)  # the transports of both sides close

    @property
    def address(self) -> Address:
        """Where it listens."""
        assert self._server is not None
        return Address("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        number = self.connections
        with suppress(OSError, EOFError):
            while True:
                body = await self._read(reader)
                self.asked.append((number, body))
                answer = self.answer(number, body)
                if isinstance(answer, Awaitable):
                    answer = await answer
                if answer is None:
                    break
                bodies = answer if isinstance(answer, list) else [answer]
                writer.writelines(bodies if self._is_lines else map(framed, bodies))
                await writer.drain()
        self.closed += 1
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        if self._is_lines:
            return (await reader.readuntil())[:-1]
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def framed(body: bytes) -> bytes:
    """Return a body with its length."""
    return len(body).to_bytes(4, "big") + body


class Nodes:
    """The brokers that links know, by id."""

    def __init__(self, **addresses: Address) -> None:
        """Keep the address of each broker, as b2=..."""
        self.revision = 7
        self.addresses = {int(name[1:]): address for name, address in addresses.items()}
        self.followed: list[int] = []
        self.learned: list[str] = []

    def address_of(self, broker_id: int, _protocol: str) -> Address | None:
        return self.addresses.get(broker_id)

    async def follow(self, revision: int) -> None:
        self.followed.append(revision)

    async def learn(self, topic: str) -> None:
        self.learned.append(topic)


class View:
    """A cluster of the brokers 1 and 2, in which 2 leads what 1 does not."""

    controller_id = 1
    revision = 7

    def __init__(self, leader: int = 2) -> None:
        self.leader = leader

    def brokers(self, host: str, port: int, _listener: object = None) -> list[Any]:
        return [
            SimpleNamespace(broker_id=1, host=host, port=port, rack=None),
            SimpleNamespace(broker_id=2, host="two.example", port=9, rack=None),
        ]

    def leadership(self, topic: Topic, partition: int) -> Leadership:
        leader = self.leader if topic.log(partition) is None else 1
        return Leadership(leader, 3, (leader,), (leader,))


def clustered(broker: Any, upstream: Address | None, *, leader: int = 2) -> Any:
    """Return a fake broker as broker 1 of a cluster whose broker 2 is at an address."""
    nodes = Nodes(**({} if upstream is None else {"b2": upstream}))
    return broker._replace(links=Links(nodes, lambda: 10), cluster=View(leader))

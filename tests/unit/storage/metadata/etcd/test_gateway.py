"""Endpoints that cannot be reached, and answers that are not those of etcd's gateway."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.model.address import Address
from broker.model.secret import Secret
from broker.storage.metadata import OutcomeUnknown
from broker.storage.metadata.etcd.gateway import Credentials, EtcdError, Gateway

SECONDS = 60


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, SECONDS))


@asynccontextmanager
async def endpoint(answer: bytes | Callable[[bytes], bytes]) -> AsyncIterator[Address]:
    """An endpoint that answers every request with these bytes and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        request = head + await reader.readexactly(size)
        writer.write(answer(request) if callable(answer) else answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


def response(body: Any, status: str = "200 OK") -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BROKEN = {
    "no answer": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "another version of HTTP": b"HTTP/2 200 OK\r\n\r\n",
    "headers without an end": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
    "headers beyond the limit": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "a length beyond the limit": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
    "a body that ends early": b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
    "a body that is not JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n<>",
    "a body that is no object": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "a chunk without a size": CHUNKED + b"zz\r\n{}\r\n",
    "a chunk beyond the limit": CHUNKED + b"fffffffff\r\n",
    "a chunk that ends early": CHUNKED + b"20\r\n{}",
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=list(BROKEN))
def test_after_an_answer_that_is_broken_the_next_endpoint_is_asked(answer: bytes) -> None:
    async def scenario() -> None:
        async with endpoint(answer) as broken, endpoint(response({"count": "0"})) as good:
            gateway = Gateway([broken, good])
            reply = await gateway.call("kv/range", {"key": "AA=="}, seconds=5, changes=False)

            assert reply == {"count": "0"}
            assert gateway.endpoint == good
            await gateway.close()

    run(scenario())


@pytest.mark.parametrize("answer", BROKEN.values(), ids=list(BROKEN))
def test_a_change_is_never_sent_twice(answer: bytes) -> None:
    async def scenario() -> None:
        asked: list[bytes] = []

        def good(request: bytes) -> bytes:
            asked.append(request)
            return response({"succeeded": True})

        async with endpoint(answer) as broken, endpoint(good) as other:
            gateway = Gateway([broken, other])
            with pytest.raises(OutcomeUnknown):
                await gateway.call("kv/txn", {}, seconds=5, changes=True)
            await gateway.close()

        assert asked == []

    run(scenario())


def test_a_change_goes_to_the_next_endpoint_if_one_cannot_be_reached() -> None:
    async def scenario() -> None:
        async with endpoint(b"") as gone:
            pass
        async with endpoint(response({"succeeded": True})) as good:
            gateway = Gateway([gone, good])

            assert await gateway.call("kv/txn", {}, seconds=5, changes=True) == {"succeeded": True}
            await gateway.close()

    run(scenario())


def test_calls_at_once_whose_token_has_expired_share_a_new_one() -> None:
    async def scenario() -> None:
        tokens = 0

        def answer(request: bytes) -> bytes:
            nonlocal tokens
            if b"/v3/auth/authenticate" in request:
                tokens += 1
                return response({"token": "new"})
            if b"Authorization: new\r\n" in request:
                return response({"count": "0"})
            text = "etcdserver: invalid auth token"
            return response({"error": text, "code": 16}, "401 Unauthorized")

        async with endpoint(answer) as etcd:
            gateway = Gateway([etcd], credentials=Credentials("root", Secret("secret")))
            gateway._token = "expired"
            calls = (gateway.call("kv/txn", {}, seconds=5, changes=True) for _ in range(8))
            assert await asyncio.gather(*calls) == [{"count": "0"}] * 8
            await gateway.close()

        assert tokens == 1

    run(scenario())


def test_a_refusal_has_the_text_and_the_code_of_etcd() -> None:
    async def scenario() -> None:
        text = "etcdserver: mvcc: database space exceeded"
        async with endpoint(
            response({"error": text, "message": text, "code": 8}, "429 Too Many Requests")
        ) as full:
            gateway = Gateway([full])
            with pytest.raises(EtcdError, match="space exceeded") as raised:
                await gateway.call("kv/txn", {}, seconds=5, changes=True)
            await gateway.close()

        assert raised.value.code == 8

    run(scenario())

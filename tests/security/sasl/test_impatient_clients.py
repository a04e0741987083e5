"""Clients that do not wait for answers: they send more, or leave."""

import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from broker.codec.messages import request_frame
from tests.security.sasl.test_users import describe, upsertion
from tests.support.sasl_client import SaslClient
from tests.support.secured_broker import PLAIN_USERS, SecuredBroker

KIB = 1 << 10
CONNECTIONS = 300
SETTINGS = ("connection.failed.authentication.delay.ms=5000",)  # how long they are held
BOB = PLAIN_USERS["bob"]
FIRST = (
    request_frame("SaslHandshake", 1, {"mechanism": "PLAIN"}, client_id="x"),
    request_frame("SaslAuthenticate", 2, {"auth_bytes": b"\0bob\0wrong"}, client_id="x"),
)


def test_what_is_sent_without_waiting_is_bounded_before_a_login(broker: SecuredBroker) -> None:
    """As much as the sockets take, while the answer to a wrong password is held back."""
    host, _, port = broker.address.rpartition(":")
    with SaslClient(broker.address) as client:
        client.plain("bob", BOB)  # what the first login allocates is not counted
    before = broker.private_memory()
    more = struct.pack(">ihhih", 10, 18, 0, 3, -1) * 20_000
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            opened = held.enter_context(socket.create_connection((host, int(port)), 60.0))
            opened.sendall(b"".join(FIRST))
            opened.setblocking(False)
            with suppress(BlockingIOError):
                opened.send(more)
        time.sleep(1)

        assert broker.private_memory() - before < CONNECTIONS * 64 * KIB


def test_a_change_is_in_force_although_its_client_has_left(
    broker: SecuredBroker, connect: Callable[[], SaslClient]
) -> None:
    """What is stored is what is known, not only after a restart."""
    names = [f"left{each}" for each in range(20)]
    for name in names:
        with SaslClient(broker.address) as client:
            client.plain("bob", BOB)
            body = {"deletions": [], "upsertions": [upsertion(name)]}
            client.send("AlterUserScramCredentials", 0, body)
    time.sleep(1)

    known = users(connect())
    broker.stop()
    broker.start()

    assert users(connect()) == known


def users(client: SaslClient) -> set[str]:
    client.plain("bob", BOB)
    return set(describe(client))

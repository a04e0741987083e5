"""Attacks by connections that have not logged in: memory, descriptors, time, guessing."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from broker.model.limits import LOG_LINES_PER_SECOND_MAX
from tests.support.broker_process import wait_until
from tests.support.sasl_client import RefusedLoginError, SaslClient, ScramClient
from tests.support.secured_broker import PLAIN_USERS, STORED_USERS, SecuredBroker
from tests.support.wire_client import ConnectionClosedError

KIB = 1 << 10
CONNECTIONS = 1_500
WAITING_MAX = 2_000
LOGIN_SECONDS = 15
SETTINGS = ("connection.failed.authentication.delay.ms=1",)  # 50 at most
GUESSES = 10_000
GUESSERS = 250
BOB = PLAIN_USERS["bob"]


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


def connection(broker: SecuredBroker, held: ExitStack) -> socket.socket:
    host, _, port = broker.address.rpartition(":")
    return held.enter_context(socket.create_connection((host, int(port)), 60.0))


def frame(size: int, body: bytes) -> bytes:
    return struct.pack(">i", size) + body


def test_a_connection_takes_64_kib_at_most_before_its_login(
    broker: SecuredBroker, held: ExitStack
) -> None:
    """The longest frame that is taken, all but its last byte, on each connection."""
    with SaslClient(broker.address) as client:
        client.plain("bob", BOB)  # what the first login allocates is not counted
    before = broker.private_memory()
    size = 20 * KIB
    start = frame(size, struct.pack(">hhih", 36, 1, 1, -1) + bytes(size - 11))
    for _ in range(CONNECTIONS):
        connection(broker, held).sendall(start)
    with SaslClient(broker.address) as client:
        client.plain("bob", BOB)  # others are served, and everything has arrived by now

    assert broker.private_memory() - before < CONNECTIONS * 64 * KIB


def test_a_flood_of_silent_connections_does_not_keep_others_out(
    broker: SecuredBroker, held: ExitStack
) -> None:
    for _ in range(WAITING_MAX + 500):
        connection(broker, held)

    begun = time.monotonic()
    with SaslClient(broker.address) as client:
        client.plain("bob", BOB)
        assert client.is_open()

    assert time.monotonic() - begun < LOGIN_SECONDS - 5, "it waited until one of them was closed"


def test_a_flood_of_silent_connections_closes_none_of_another_address(
    broker: SecuredBroker, held: ExitStack
) -> None:
    """One that is older than all of them is in the middle of its login."""
    with SaslClient(broker.address, source="127.0.0.2") as client:
        client.choose("PLAIN")
        for _ in range(WAITING_MAX + 10):
            connection(broker, held)
        client.token(f"\0bob\0{BOB}".encode())
        assert client.is_open()


@pytest.mark.slow("waits for the time that a login may take")
def test_a_connection_that_does_not_log_in_is_closed(
    broker: SecuredBroker, held: ExitStack
) -> None:
    silent = connection(broker, held)
    told = SaslClient(broker.address, 60.0)
    told.request("ApiVersions", 0, {})
    chosen = SaslClient(broker.address, 60.0)
    chosen.choose("SCRAM-SHA-256")
    logged_in = SaslClient(broker.address, 60.0)
    logged_in.plain("bob", BOB)

    begun = time.monotonic()
    assert silent.recv(1) == b""
    for client in (told, chosen):
        client.expect_closed()
        client.close()

    assert time.monotonic() - begun > LOGIN_SECONDS - 2
    assert logged_in.is_open()
    logged_in.close()


@pytest.mark.slow("waits for the time that a login may take")
def test_bytes_one_by_one_do_not_extend_the_time_of_a_login(
    broker: SecuredBroker, held: ExitStack
) -> None:
    slow = connection(broker, held)
    until = time.monotonic() + LOGIN_SECONDS + 60
    with suppress(OSError):
        for byte in frame(20_000, struct.pack(">hhih", 36, 1, 1, -1) + bytes(10_000)):
            slow.sendall(bytes([byte]))
            time.sleep(0.05)
            assert time.monotonic() < until


@pytest.mark.slow("makes 10,000 connections")
def test_ten_thousand_wrong_passwords_find_nothing_and_others_are_served(
    broker: SecuredBroker,
) -> None:
    """Several guesses at once: each has its own connection and waits for its answer."""
    first = b"\0bob\0%d"
    refused = 0
    slowest = 0.0
    first_guess = time.monotonic()
    with SaslClient(broker.address) as neighbour:
        neighbour.plain("bob", BOB)
        for start in range(0, GUESSES, GUESSERS):
            guessers = [SaslClient(broker.address) for _ in range(GUESSERS)]
            for guesser in guessers:
                guesser.send("SaslHandshake", 1, {"mechanism": "PLAIN"})
            for number, guesser in enumerate(guessers):
                guesser.receive()
                guesser.send("SaslAuthenticate", 1, {"auth_bytes": first % (start + number)})
            begun = time.monotonic()
            assert neighbour.is_open()
            slowest = max(slowest, time.monotonic() - begun)
            for guesser in guessers:
                refused += guesser.receive()["error_code"] == 58
                guesser.close()

    assert refused == GUESSES
    assert slowest < 5, "longer than any stall of a loaded machine"
    with SaslClient(broker.address) as client:
        client.plain("bob", BOB)
    seconds = time.monotonic() - first_guess
    lines = [each for each in broker.log_lines() if "login failed" in each]
    assert len(lines) <= LOG_LINES_PER_SECOND_MAX * (seconds + 2), "the log is bounded"


def test_guesses_are_held_back_longer_and_longer(broker: SecuredBroker) -> None:
    """1, 2, 4 ms and so on, 50 at most."""
    begun = time.monotonic()
    for _ in range(12):
        with SaslClient(broker.address) as client, pytest.raises(RefusedLoginError):
            client.plain("carol", "guess")
    took = time.monotonic() - begun

    assert took > (1 + 2 + 4 + 8 + 16 + 32 + 6 * 50) / 1000
    with SaslClient(broker.address) as client:
        client.plain("carol", PLAIN_USERS["carol"])


def test_guessing_a_stored_password_does_not_stall_the_loop(broker: SecuredBroker) -> None:
    """Each guess costs a derivation of keys, in another thread."""
    guessers = [SaslClient(broker.address) for _ in range(GUESSERS)]
    for guesser in guessers:
        guesser.send("SaslHandshake", 1, {"mechanism": "PLAIN"})
    for guesser in guessers:
        guesser.receive()
        guesser.send("SaslAuthenticate", 1, {"auth_bytes": b"\0alice\0guess"})
    begun = time.monotonic()
    slowest = 0.0
    with SaslClient(broker.address) as neighbour:
        for _ in range(20):
            asked = time.monotonic()
            neighbour.choose("PLAIN")
            slowest = max(slowest, time.monotonic() - asked)
            neighbour.reconnect()

    for guesser in guessers:
        assert guesser.receive()["error_code"] == 58
        guesser.close()
    assert slowest < (time.monotonic() - begun) / 2


@pytest.mark.parametrize("size", [20 * KIB - 60, 4 * KIB])
def test_a_huge_message_of_a_mechanism_is_refused(broker: SecuredBroker, size: int) -> None:
    with SaslClient(broker.address) as client:
        client.choose("SCRAM-SHA-256")
        with pytest.raises((RefusedLoginError, ConnectionClosedError)):
            client.token(b"n,,n=alice,r=x" + b",a=" * (size // 3))


def test_a_flood_of_first_messages_keeps_no_state_of_closed_connections(
    broker: SecuredBroker,
) -> None:
    before = broker.open_files()
    for _ in range(1_000):
        with SaslClient(broker.address) as client:
            client.choose("SCRAM-SHA-512")
            client.token(ScramClient("SCRAM-SHA-512", "alice", "").first())

    wait_until(lambda: broker.open_files() <= before + 5, "the connections are closed")


def test_an_unknown_user_takes_as_long_as_one_with_a_wrong_password(
    broker: SecuredBroker,
) -> None:
    """The order of magnitude; tests/unit has the same work for both."""
    with SaslClient(broker.address) as client:
        client.plain("alice", STORED_USERS["alice"])  # earlier guesses are forgotten
    shortest = {"alice": 60.0, "nobody at all": 60.0}
    for user in [*shortest] * 5:
        begun = time.monotonic()
        with SaslClient(broker.address) as client, pytest.raises(RefusedLoginError):
            client.plain(user, "wrong")
        shortest[user] = min(shortest[user], time.monotonic() - begun)

    known, unknown = shortest.values()
    assert known / 2 < unknown < known * 2

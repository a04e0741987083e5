"""Connections whose bytes are encrypted: the same answers, bounded memory, and no shortcut."""

import socket
import ssl

import pytest

from broker._native.log.partition_log import PartitionLog
from broker.model.tls_limits import (
    TLS_CLIENT_HELLO_BYTES_MAX,
    TLS_HANDSHAKE_STEPS_PER_TURN,
    TLS_HOLDING_MAX,
    TLS_RECORDS_PER_READ,
)
from tests.support.native_log import records
from tests.support.native_wire import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    Wire,
    fetch,
    partition,
    produce,
    request,
    response,
)
from tests.support.tls_client import Keys, TlsClient

ALERT = bytes.fromhex("15030300020250")
LONG_MS = 600_000
MIB = 1 << 20


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


def ready(wire: Wire, keys: Keys, *, sends_bytewise: bool = False) -> TlsClient:
    client = TlsClient(wire, keys, sends_bytewise=sends_bytewise)
    client.shake_hands()
    return client


@pytest.mark.parametrize("sends_bytewise", [False, True])
def test_requests_are_answered_as_without_encryption(
    wire: Wire, keys: Keys, log: PartitionLog, sends_bytewise: bool
) -> None:
    plain = wire.connect()
    client = ready(wire, keys, sends_bytewise=sends_bytewise)

    client.send(produce(7, (0, records(3))))
    written = response(PRODUCE, 7, client.frame())[1]
    client.send(fetch(11, (0, 0)))
    read = client.frame()

    assert partition(written)["base_offset"] == 0
    assert response(FETCH, 11, read)[1] == plain.ask(fetch(11, (0, 0)))
    assert log.log_end_offset == 3
    assert client.secured == [client.connection]
    assert not client.failures


def test_what_is_decrypted_while_a_request_waits_is_served_without_another_byte(
    durable: Wire, keys: Keys
) -> None:
    client = ready(durable, keys)
    waiting = fetch(11, (0, 0), max_wait_ms=100, min_bytes=1, correlation_id=1)
    many = [produce(7, (0, records(1, size=3000)), correlation_id=2 + each) for each in range(100)]

    client.send(waiting + b"".join(many))

    answers = [response(FETCH, 11, client.frame())[0]]
    answers += [response(PRODUCE, 7, client.frame())[0] for _ in many]
    assert answers == list(range(1, 102))


def test_frames_longer_than_a_record_and_a_read_arrive_whole(
    wire: Wire, keys: Keys, log: PartitionLog
) -> None:
    client = ready(wire, keys)
    batch = records(3, size=300_000)

    for count in range(1, 4):
        client.send(produce(7, (0, batch)))
        assert partition(response(PRODUCE, 7, client.frame())[1])["error_code"] == 0
        assert log.log_end_offset == 3 * count


def test_a_slow_reader_gets_all_of_a_large_answer_and_little_of_it_waits_encrypted(
    wire: Wire, keys: Keys
) -> None:
    client = ready(wire, keys)
    plain = wire.connect()
    for _ in range(12):
        plain.ask(produce(7, (0, records(1, size=900_000))))
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 12 * MIB}

    before = wire.poller.reply_memory_bytes
    client.send_raw(client.seal(fetch(11, wanted, max_bytes=12 * MIB)))
    waiting = wire.poller.reply_memory_bytes - before
    answer = response(FETCH, 11, client.frame())[1]

    assert waiting < 300 << 10
    assert wire.poller.reply_memory_bytes == before
    assert answer == plain.ask(fetch(11, wanted, max_bytes=12 * MIB))
    assert len(partition(answer)["records"]) > 10 * MIB


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", request(API_VERSIONS, 0, {}), b"\x16\x02", b"\x80\x2e\x01"]
)
@pytest.mark.parametrize("sends_bytewise", [False, True])
def test_bytes_that_are_not_tls_get_one_alert(
    wire: Wire, keys: Keys, first: bytes, sends_bytewise: bool
) -> None:
    client = TlsClient(wire, keys, sends_bytewise=sends_bytewise)

    client.send_raw(first)

    assert client.socket.recv(100) == ALERT
    assert client.is_closed()
    assert client.failures == ["these are not the first bytes of TLS"]
    assert client.channel.ssl_object is None or (sends_bytewise and first[0] == 0x16)


def test_a_first_message_that_announces_too_much_is_refused_before_it_comes(
    wire: Wire, keys: Keys
) -> None:
    client = TlsClient(wire, keys)

    announced = (TLS_CLIENT_HELLO_BYTES_MAX + 1).to_bytes(3, "big")
    client.send_raw(b"\x16\x03\x01\x40\x00\x01" + announced)

    assert client.is_closed()
    assert client.channel.ssl_object is None


def test_a_connection_that_sends_nothing_has_no_memory_of_tls(wire: Wire, keys: Keys) -> None:
    client = TlsClient(wire, keys)
    wire.run()

    assert client.channel.ssl_object is None
    assert not client.is_closed()


@pytest.mark.parametrize("size", [1, 5, 9, 100, -1])
def test_a_handshake_that_is_cut_ends_its_connection_alone(
    wire: Wire, keys: Keys, size: int
) -> None:
    other = ready(wire, keys)
    client = TlsClient(wire, keys)
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    client.send_raw(client._outgoing.read()[:size])

    client.close()

    assert client.failures == ["closed during the TLS handshake"]
    other.send(fetch(11, (0, 0)))
    assert other.frame()


@pytest.mark.parametrize("at", [0, 3, 5, 20, -1])
def test_a_changed_record_ends_the_connection_and_nothing_of_it_is_served(
    wire: Wire, keys: Keys, log: PartitionLog, at: int
) -> None:
    client = ready(wire, keys)
    sealed = bytearray(client.seal(produce(7, (0, records(1)))))
    sealed[at] ^= 0x40

    client.send_raw(bytes(sealed))
    client.close()

    assert log.log_end_offset == 0
    assert wire.closed[-1].startswith(("TLS failed", "closed without an end of TLS"))


def in_tiny_records(client: TlsClient, data: bytes) -> bytes:
    """Encrypt each byte by itself."""
    return b"".join(client.seal(data[at : at + 1]) for at in range(len(data)))


def opened_by_reads(clients: list[TlsClient], sealed: list[bytes]) -> list[int]:
    """Let everything arrive before the first turn; return what each connection opens in each."""
    wire, opened = clients[0].wire, []
    for client, data in zip(clients, sealed, strict=True):
        assert client.socket.send(data) == len(data)
    while wire._wants_turn or wire.is_ready:
        if wire._wants_turn:
            wire._wants_turn = False
            wire.poller.end()
        else:
            wire.poller()
        opened += [client.channel.opened for client in clients]
    return opened


@pytest.mark.parametrize("count", [1, TLS_HOLDING_MAX + 2])
def test_tiny_records_are_opened_some_at_a_time_and_all_arrive(
    wire: Wire, keys: Keys, log: PartitionLog, count: int
) -> None:
    """More connections than may hold what they have received, and all of it at once."""
    clients = [ready(wire, keys) for _ in range(count)]
    frame = produce(7, (0, records(1, size=3000)))
    assert len(frame) > 3 * TLS_RECORDS_PER_READ

    opened = opened_by_reads(clients, [in_tiny_records(each, frame) for each in clients])

    assert max(opened) == TLS_RECORDS_PER_READ
    assert log.log_end_offset == count
    for each in clients:
        assert partition(response(PRODUCE, 7, each.frame())[1])["error_code"] == 0


def test_an_end_of_tls_after_many_tiny_records_is_seen(
    wire: Wire, keys: Keys, log: PartitionLog
) -> None:
    client = ready(wire, keys)
    sealed = in_tiny_records(client, produce(7, (0, records(1, size=2000))))
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()

    client.send_raw(sealed + client._outgoing.read())

    assert log.log_end_offset == 1
    assert wire.closed == ["closed by the peer"]


def test_what_is_held_of_a_connection_that_closes_is_free_for_others(
    wire: Wire, keys: Keys, log: PartitionLog
) -> None:
    for _ in range(TLS_HOLDING_MAX + 1):
        client = ready(wire, keys)
        client.socket.send(in_tiny_records(client, produce(7, (0, records(1, size=2000)))[:-1]))
        wire.poller()
        client.connection.abort("test")
    wire.run()
    client = ready(wire, keys)
    frame = produce(7, (0, records(1, size=3000)))

    opened = opened_by_reads([client], [in_tiny_records(client, frame)])

    assert max(opened) == TLS_RECORDS_PER_READ, "it could not hold anything"
    assert log.log_end_offset == 1


def test_a_connection_that_is_cut_has_not_ended(wire: Wire, keys: Keys) -> None:
    client = ready(wire, keys)

    client.socket.shutdown(socket.SHUT_WR)
    wire.run()

    assert wire.closed == ["closed without an end of TLS"]


def test_the_end_of_tls_is_the_end_of_the_connection_on_both_sides(wire: Wire, keys: Keys) -> None:
    client = ready(wire, keys)
    client.send(fetch(11, (0, 0)))
    client.frame()

    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.exchange()

    assert client.is_closed()
    assert wire.closed == ["closed by the peer"]
    client.tls.unwrap()  # the broker has sent its close_notify, too


def test_a_broker_that_closes_says_so_within_tls(wire: Wire, keys: Keys) -> None:
    client = ready(wire, keys)

    client.connection.abort("test")
    client.take()

    assert client.tls.read(1) == b""  # not SSLWantReadError: the end


def test_more_handshakes_than_a_turn_takes_are_all_done(wire: Wire, keys: Keys) -> None:
    clients = [TlsClient(wire, keys) for _ in range(5 * TLS_HANDSHAKE_STEPS_PER_TURN)]
    for each in clients:
        with pytest.raises(ssl.SSLWantReadError):
            each.tls.do_handshake()
        each.socket.send(each._outgoing.read())

    wire.run()

    for each in clients:
        each.take()
        each.shake_hands()
        assert each.channel.is_established


def test_the_first_request_may_come_with_the_end_of_the_handshake(wire: Wire, keys: Keys) -> None:
    client = TlsClient(wire, keys)
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    client.exchange()
    client.tls.do_handshake()
    client.send(fetch(11, (0, 0)))  # with the last message of the handshake before it

    assert response(FETCH, 11, client.frame())[1]["error_code"] == 0


def test_a_version_that_is_too_old_is_refused(wire: Wire, keys: Keys) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    client_only = Keys.__new__(Keys)
    client_only.server = server
    client_only.client = keys.client.__class__(ssl.PROTOCOL_TLS_CLIENT)
    client_only.client.maximum_version = ssl.TLSVersion.TLSv1_2
    client = TlsClient(wire, client_only)

    with pytest.raises(ssl.SSLError, match=r"(?i)protocol version|unsupported"):
        client.shake_hands()
    assert client.is_closed()
    assert "unsupported protocol" in client.failures[0]

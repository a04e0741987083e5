"""Measures TLS: `make bench SUITE=tls`.

    produce, fetch   CPU of the broker per GB over TLS, beside 1.3 times the sum of its CPU per GB
                     over a plain connection and of AES-256-GCM (openssl speed, pieces of 16 KiB)
    handshake        CPU of the broker per connection that asks for one page over HTTP, beside 1.2
                     times that of `openssl s_server -www` with the same key and clients

    beside Kafka     CPU of the whole process per GB over TLS, beside half of Apache Kafka's over
                     its SSL listener (with --kafka-jars, or KAFKA_LIBS)
    login            CPU of the broker per connection that logs in by SCRAM, see logins.py

    python -m benchmarks.tls.bench [--rounds N] [--megabytes N] [--kafka-jars FOLDER]

The client is one process, which sends and receives as much at once with TLS as without. The parts
take turns, round after round, because the machine is shared; figures are medians of the rounds, and
the ratio is that within rounds.
"""

import argparse
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.end_to_end import machine
from benchmarks.end_to_end.targets import Target, start_kafka
from benchmarks.tls import logins
from tests.support import wire_requests
from tests.support.broker_process import wait_until
from tests.support.native_log import records
from tests.support.native_wire import fetch, produce
from tests.support.secure_broker import SecureBroker
from tests.support.wire_client import WireClient

ROUNDS = 5
MEGABYTES = 400
BATCH_BYTES = 950_000
IN_FLIGHT = 4
FETCH_BYTES = 8 << 20
HANDSHAKES = 1000
RECORD_BYTES = 16 << 10
PIECE_BYTES = 1 << 20
GOAL = 1.3
HANDSHAKE_GOAL = 1.2
KAFKA_GOAL = 0.5
KAFKA_WARM_UP = 3  # times that it does all the work before it is measured
TOPIC = "topic"  # that of the requests of native_wire
WRITTEN, READ = 0, 1  # partitions
READ_BYTES = 40_000_000
# Little is kept: the cost of a full page cache is not that of TLS.
SETTINGS = (
    "log.segment.bytes=50000000",
    "log.retention.bytes=50000000",
    "log.retention.ms=-1",  # the records are of a fixed time
    "log.retention.check.interval.ms=200",
    "log.segment.delete.delay.ms=0",
)
GB = 1e9


class Connection:
    """A connection to the broker, plain or with TLS."""

    def __init__(self, address: str, context: ssl.SSLContext | None) -> None:
        """Connect; finish the handshake."""
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._buffer = bytearray(PIECE_BYTES)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if context is not None:
            self._tls = context.wrap_bio(
                self._incoming, self._outgoing, server_hostname="localhost"
            )
            while not self._is_secured():
                self._incoming.write(self._socket.recv(PIECE_BYTES))

    def _is_secured(self) -> bool:
        assert self._tls is not None
        done = False
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
            done = True
        self._socket.sendall(self._outgoing.read())
        return done

    def send(self, data: bytes) -> None:
        """Send all of it."""
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        self._socket.sendall(data)

    def receive(self, size: int) -> bytes:
        """Return the first of so many bytes, which are all received."""
        first = b""
        while size > 0:
            piece = self._some(size)
            first = first or piece[:RECORD_BYTES]
            size -= len(piece)
        return first

    def _some(self, size: int) -> bytes:
        if self._tls is None:
            return self._socket.recv(min(size, PIECE_BYTES))
        while True:
            try:
                return self._tls.read(min(size, PIECE_BYTES))
            except ssl.SSLWantReadError:
                self._incoming.write(self._socket.recv(PIECE_BYTES))

    def frame(self) -> int:
        """Receive an answer; return its size."""
        size = int.from_bytes(self.receive(4), "big")
        self.receive(size)
        return size

    def close(self) -> None:
        """Close it."""
        self._socket.close()


class Bench:
    """A broker, and what is measured of it."""

    def __init__(
        self, plain: str, secure: str, pid: int, context: ssl.SSLContext, size: int
    ) -> None:
        """Make the topic; the addresses are those without TLS and with it."""
        self.pid = pid
        self.size = size
        self._plain, self._secure = plain, secure
        self._context = context
        self._batch = records(1, size=BATCH_BYTES)
        with WireClient(plain) as client:
            wire_requests.create_topic(client, TOPIC, 2)
        self._fill(READ)

    def open(self, *, has_tls: bool) -> Connection:
        """Return a connection."""
        address = self._secure if has_tls else self._plain
        return Connection(address, self._context if has_tls else None)

    def spent(self, work: Callable[[], float], pid: int | None = None) -> float:
        """Return the CPU seconds of the broker's loop, or a process, by what `work` returns."""
        measured = pid or self.pid
        read = machine.loop_seconds if pid is None else machine.process_seconds
        before = read(measured)
        done = work()
        return (read(measured) - before) / done

    def _fill(self, partition: int) -> None:
        """Write what fetches read."""
        connection = self.open(has_tls=False)
        for _ in range(READ_BYTES // BATCH_BYTES):
            connection.send(produce(7, (partition, self._batch), acks=1))
            connection.frame()
        connection.close()

    def produced(self, *, has_tls: bool) -> float:
        """Write; return GB."""
        connection = self.open(has_tls=has_tls)
        request = produce(7, (WRITTEN, self._batch), acks=1)
        count = self.size // BATCH_BYTES
        for number in range(count):
            connection.send(request)
            if number >= IN_FLIGHT:
                connection.frame()
        for _ in range(min(count, IN_FLIGHT)):
            connection.frame()
        connection.close()
        return count * BATCH_BYTES / GB

    def fetched(self, *, has_tls: bool) -> float:
        """Read the same records again and again; return GB."""
        connection = self.open(has_tls=has_tls)
        wanted = {"partition": READ, "fetch_offset": 0, "partition_max_bytes": FETCH_BYTES}
        request = fetch(11, wanted, max_bytes=FETCH_BYTES)
        received = 0
        while received < self.size:
            connection.send(request)
            received += connection.frame()
        connection.close()
        return received / GB

    def connected(self, address: str) -> float:
        """Connect over TLS, ask for a page, and close; return how often."""
        for _ in range(HANDSHAKES):
            connection = Connection(address, self._context)
            connection.send(b"GET /live HTTP/1.1\r\n\r\n")
            connection.receive(1)
            connection.close()
        return float(HANDSHAKES)


def cipher_seconds_per_gb() -> float:
    """Return the CPU time of AES-256-GCM alone, by the OpenSSL of this machine."""
    command = ["openssl", "speed", "-seconds", "1", "-bytes", str(RECORD_BYTES), "-evp"]
    done = subprocess.run(
        [*command, "aes-256-gcm"], capture_output=True, text=True, timeout=60, check=True
    )
    found = re.search(r"^AES-256-GCM\s+([0-9.]+)k", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return GB / (float(found.group(1)) * 1000)


@contextmanager
def openssl_server(broker: SecureBroker) -> Iterator[tuple[str, int]]:
    """Run OpenSSL's own server with the broker's key; yield its address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    keys = ["-cert", str(broker.key_store), "-key", str(broker.key_store)]
    with subprocess.Popen(
        ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-www", "-quiet", *keys],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: _listens(port), "openssl s_server listens")
            yield f"127.0.0.1:{port}", process.pid
        finally:
            process.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    jars = os.environ.get("KAFKA_LIBS")
    parser.add_argument("--kafka-jars", type=Path, default=Path(jars) if jars else None)
    options = parser.parse_args(arguments)
    figures: dict[str, list[tuple[float, float, float]]] = {}
    beside: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        broker = SecureBroker(Path(folder), settings=SETTINGS)
        broker.start()
        kafka: Bench | None = None
        with ExitStack() as stack:
            stack.callback(broker.stop)
            size, context = options.megabytes * 1_000_000, broker.client_context()
            pid = broker.process.pid
            bench = Bench(broker.address, broker.secure, pid, context, size)
            bench.produced(has_tls=False)
            if options.kafka_jars is not None:
                target, secure = _start_kafka(options.kafka_jars, broker, Path(folder) / "kafka")
                stack.callback(target.kill)
                kafka = Bench(f"127.0.0.1:{target.port}", secure, target.pid, context, size)
                for _ in range(KAFKA_WARM_UP):
                    kafka.produced(has_tls=True)
                    kafka.fetched(has_tls=True)
            for _ in range(options.rounds):
                cipher = cipher_seconds_per_gb()
                for name, both in (("produce", Bench.produced), ("fetch", Bench.fetched)):
                    plain, with_tls = _both(bench, partial(both, bench))
                    figures.setdefault(name, []).append((with_tls, plain, cipher))
                    if kafka is not None:
                        ours, theirs = (
                            each.spent(partial(both, each, has_tls=True), each.pid)
                            for each in (bench, kafka)
                        )
                        beside.setdefault(name, []).append((ours, theirs))
                with openssl_server(broker) as (address, pid):
                    own = bench.spent(partial(bench.connected, address), pid)
                with_tls = bench.spent(partial(bench.connected, broker.secure))
                figures.setdefault("handshake", []).append((with_tls * 1e6, 0.0, own * 1e6))
    are_met = [_report(figures), _report_beside(beside)]
    logins.main(options.rounds)
    return 0 if all(are_met) else 1


def _start_kafka(jars: Path, broker: SecureBroker, folder: Path) -> tuple[Target, str]:
    """Start Apache Kafka with the keys of a broker; return it and its address for TLS."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        secure = f"127.0.0.1:{free.getsockname()[1]}"
    plain = "PLAINTEXT://127.0.0.1:{port}"
    more = [
        f"listeners={plain},SSL://{secure},CONTROLLER://127.0.0.1:{{controller_port}}",
        f"advertised.listeners={plain},SSL://{secure}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={broker.key_store}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={broker.authority.file}",
        *SETTINGS,
    ]
    return start_kafka(jars, folder, "".join(f"{each}\n" for each in more)), secure


def _both(bench: Bench, work: Callable[..., float]) -> tuple[float, float]:
    return (
        bench.spent(lambda: work(has_tls=False)),
        bench.spent(lambda: work(has_tls=True)),
    )


def _report(figures: dict[str, list[tuple[float, float, float]]]) -> bool:
    print(f"{'':10} {'TLS':>9} {'plain':>9} {'OpenSSL':>9} {'ratio':>7} {'goal':>7}")
    is_met = True
    for name, rounds in figures.items():
        goal = HANDSHAKE_GOAL if name == "handshake" else GOAL
        unit = "us" if name == "handshake" else "s/GB"
        ratio = median(with_tls / (plain + own) for with_tls, plain, own in rounds)
        shown = [median(each) for each in zip(*rounds, strict=True)]
        print(
            f"{name:10} {shown[0]:9.3f} {shown[1]:9.3f} {shown[2]:9.3f} {ratio:7.2f}"
            f" {f'<= {goal}':>7}  {unit}{'' if ratio <= goal else '  NOT MET'}"
        )
        is_met = is_met and ratio <= goal
    return is_met


def _report_beside(beside: dict[str, list[tuple[float, float]]]) -> bool:
    if not beside:
        print("beside Kafka: not measured, since its jars are not named")
        return True
    print(f"{'':10} {'TLS':>9} {'Kafka':>9} {'ratio':>7} {'goal':>7}")
    is_met = True
    for name, rounds in beside.items():
        ours, theirs = (median(each) for each in zip(*rounds, strict=True))
        ratio = median(one / other for one, other in rounds)
        is_met = is_met and ratio <= KAFKA_GOAL
        print(
            f"{name:10} {ours:9.3f} {theirs:9.3f} {ratio:7.2f} {f'<= {KAFKA_GOAL}':>7}  s/GB"
            f"{'' if ratio <= KAFKA_GOAL else '  NOT MET'}"
        )
    return is_met


if __name__ == "__main__":
    sys.exit(main())

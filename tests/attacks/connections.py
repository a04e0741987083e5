"""Attacks by connections: many that open and close, orderly or by a reset."""

import socket
import struct
from contextlib import ExitStack, suppress

CHURN = 2_000
HALF_OPEN = 1_000
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, no time
REQUEST = struct.pack(">ihhi", 10, 18, 0, 1) + b"\xff\xff"  # ApiVersions of a nameless client


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 60.0)


def come_and_go(address: str, held: ExitStack) -> None:
    """Open and close connections at full speed: close, reset, reset in a request, half-close."""
    del held
    for number in range(CHURN):
        with _connect(address) as each, suppress(OSError):
            if number % 4 == 1:
                each.sendall(REQUEST)
            if number % 4 == 3:
                each.sendall(REQUEST[: number % len(REQUEST)])
                each.shutdown(socket.SHUT_WR)
            if number % 4 < 3:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)


def close_one_half(address: str, held: ExitStack) -> None:
    """Half-close connections and never read the responses."""
    for number in range(HALF_OPEN):
        each = held.enter_context(_connect(address))
        with suppress(OSError):
            each.sendall(REQUEST * (number % 3))
            each.shutdown(socket.SHUT_WR)


ATTACKS = [come_and_go, close_one_half]

"""Ports for processes that must know theirs before they start."""

import os
import random
import socket

HOST = "127.0.0.1"
_FIRST_PORT, _LAST_PORT = 20_000, 32_000  # not given to clients' sockets
_SHARES = 8  # processes of pytest-xdist that never try the same ports
_random = random.SystemRandom()  # tests seed the module's generator, all in the same way


def free_port(count: int = 1) -> int:
    """Return the first of so many free ports in a row, from this process's share of all ports."""
    share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES
    ports = (_LAST_PORT - _FIRST_PORT) // _SHARES
    lowest = _FIRST_PORT + share * ports
    while True:
        first = _random.randint(lowest, lowest + ports - count)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind((HOST, port))
        except OSError:
            continue
        return first

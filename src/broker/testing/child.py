"""A broker in a forked process, whose clock, disk and requests a test steers over a socket.

The test process sends a line of JSON and reads one; the first line that it reads says whether the
broker has started. When it closes its end the broker is killed: nothing outlives a test run.
"""

import asyncio
import ctypes
import gc
import json
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NoReturn

from broker._native.kernel import file_ops, heap
from broker.core.service import Service
from broker.core.session import Session
from broker.model.clock import SystemClock
from broker.model.config import Config, load
from broker.model.errors import PolylogError
from broker.protocols.registry import PROTOCOLS
from broker.server import app
from broker.server.composition import Composition, Variant
from broker.server.garbage_collection import bound_collections
from broker.server.log_lines import write_lines_as
from broker.testing.faulty_kafka import FaultyKafka
from broker.testing.limits import CONTROL_BYTES
from broker.testing.rules import Rule, Rules

_PR_SET_PDEATHSIG: Final = 1
_FRAME_SIZE: Final = (64).to_bytes(4, "big")  # of a response that never comes


class SteeredClock(SystemClock):
    """The system's clock, and what a test adds to it.

    Attributes:
        step_ms: added to the wall clock alone, as by a wrong NTP server.
        passed_ms: added to all clocks of the machine but the monotonic one: time that has passed,
            as it does for a laptop that sleeps.
    """

    __slots__ = ("passed_ms", "step_ms")

    def __init__(self, step_ms: int, passed_ms: int) -> None:
        """Start with these differences."""
        self.step_ms = step_ms
        self.passed_ms = passed_ms

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return super().wall_ms() + self.step_ms + self.passed_ms

    def boot_ms(self) -> int:
        """Return milliseconds since the machine's boot."""
        return super().boot_ms() + self.passed_ms


class Steering(Service):
    """Serves what the test process asks for."""

    name = "steering by tests"

    def __init__(
        self,
        parts: Composition,
        control: socket.socket,
        kafka: FaultyKafka,
        rules: Rules,
        clock: SteeredClock,
    ) -> None:
        """Keep what it steers."""
        self._parts = parts
        self._control = control
        self._kafka = kafka
        self._rules = rules
        self._clock = clock
        self._received = b""
        kafka.cut = self._cut

    def start(self) -> None:
        """Listen to the test process."""
        self._control.setblocking(False)
        asyncio.get_event_loop().add_reader(self._control.fileno(), self._receive)

    def _receive(self) -> None:
        received = self._control.recv(CONTROL_BYTES)
        if not received:
            os.kill(os.getpid(), signal.SIGKILL)
        *lines, self._received = (self._received + received).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            answer = getattr(self, f"_do_{asked.pop('do')}")(**asked)
            tell(self._control, {"ok": answer})

    def _do_add(self, **fields: Any) -> int:  # noqa: ANN401 - those of Rule
        number = self._rules.add(Rule(**fields))
        self._kafka.apply()
        return number

    def _do_hits(self, number: int) -> int:
        rule = self._rules.by_number.get(number)
        return 0 if rule is None else rule.hits

    def _do_remove(self, number: int) -> int:
        rule = self._rules.by_number.pop(number, None)
        self._kafka.apply()
        return 0 if rule is None else rule.hits

    def _do_disconnect(self) -> int:
        connections = list(self._parts.poller.connections.values())
        for each in connections:
            each.abort("disconnected by a test")
        return len(connections)

    def _do_clock(self, step_ms: int, passed_ms: int) -> None:
        self._clock.step_ms = step_ms
        self._clock.passed_ms = passed_ms

    def _do_disk(self, *, is_full: bool) -> None:
        watch, disk = self._parts.maintenance.disk_watch, self._parts.logs.turn.disk
        watch.measure = _nothing_is_free if is_full else file_ops.space
        disk.is_tight = disk.refuses_clients = disk.is_read_only = is_full  # not a second later

    def _cut(self, session: Session) -> None:
        for each in self._parts.poller.connections.values():
            if each.session is session:
                if each.tls is None:
                    with suppress(OSError):  # the client reads slowly, or has gone
                        os.write(each.fd, _FRAME_SIZE)
                each.abort("cut by a test")
                return


def run(asked: dict[str, Any], control_fd: int, log_fd: int, launcher_pid: int) -> NoReturn:
    """Run a broker until it is stopped; never returns to the launcher's code."""
    exit_code = app.EXIT_INTERNAL
    try:
        _end_with_the(launcher_pid)
        for each in (1, 2):
            os.dup2(log_fd, each)
        exit_code = _run(asked, socket.socket(fileno=control_fd))
    except BaseException:  # noqa: BLE001 - there is no caller
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(exit_code)


def _end_with_the(launcher_pid: int) -> None:
    """Be killed with the launcher, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher_pid:
        os.kill(os.getpid(), signal.SIGKILL)


def _run(asked: dict[str, Any], control: socket.socket) -> int:
    os.umask(0o077)
    heap.bound_what_is_kept()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    write_lines_as("text")
    clock = SteeredClock(asked["step_ms"], asked["passed_ms"])
    rules = Rules()
    kafka = FaultyKafka(rules)

    def services(parts: Composition) -> Iterable[Service]:
        return (Steering(parts, control, kafka, rules, clock),)

    def announce(*_: object) -> None:
        bound_collections()
        gc.enable()
        tell(control, {"ok": None})

    def when_needed() -> FaultyKafka:
        # The data directory is open and nothing listens yet: a spare broker waits here until the
        # one before it has ended.
        if asked["is_spare"] and not control.recv(1):
            os.kill(os.getpid(), signal.SIGKILL)
        return kafka

    protocols = [when_needed if each.name == kafka.name else each for each in PROTOCOLS]
    variant = Variant(clock, protocols, services)
    gc.disable()
    try:
        config: Config = load(asked["settings"], {}, None)
        return app.run(config, announce, variant)
    except PolylogError as error:
        tell(control, {"error": str(error)})
        return 1


def tell(control: socket.socket, message: dict[str, object]) -> None:
    """Send a line to the test process."""
    control.sendall(json.dumps(message).encode() + b"\n")


def _nothing_is_free(path: str) -> tuple[int, int, int, int]:
    total_bytes, _, total_inodes, free_inodes = file_ops.space(path)
    return total_bytes, 0, total_inodes, free_inodes

"""Load for the kill -9 campaign: workers that outlive their broker, and the history they write.

Every worker records its requests and their results (tests/histories). A record's value names its
partition and which of its sender's records it is: `topic,partition,worker,number,` and a tail that
follows from the number. A history has the first four; a value with a wrong tail is kept whole, so
that the checker finds it to be a record that nobody sent.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tests.histories.facts import Place
from tests.histories.history import Recorder
from tests.support.broker_process import POLL_INTERVAL_S, BrokerProcess, wait_until

TAIL_BYTES_MAX = 400
RUN_TIMEOUT_S = 120.0
PAUSE_S = 0.01  # of each worker between its requests: a mixed load rather than a heavy one
DONE_PER_LIFE = (20, 200)  # operations; the kill comes at a random number of them
EVERYBODY_EACH = 10  # broker runs: within this many, every worker must have made progress


def value_of(name: str) -> bytes:
    """Return the bytes of a record: deterministic, different each time, valid in a line."""
    number = int(name.rpartition(",")[2])
    size = random.Random(number).randrange(TAIL_BYTES_MAX)
    return name.encode() + b"," + b"x=m"[number % 3 :][:1] * size


def name_of(value: bytes | None) -> str | None:
    """Return the name of a value in a history."""
    if value is None:
        return None
    name = b",".join(value.split(b",", 4)[:4]).decode(errors="replace")
    try:
        is_whole = value_of(name) == value
    except ValueError:
        is_whole = False
    return name if is_whole else repr(value[:100])


Exceptions = tuple[type[Exception], ...]


class Closing(Protocol):
    """What every client has."""

    def close(self) -> None:
        """Close a connection."""


Client = TypeVar("Client", bound=Closing)


class Worker(threading.Thread):
    """A worker that continues until it is told to stop, over any number of broker runs."""

    def __init__(self, name: str, address: str, history: Recorder) -> None:
        super().__init__(name=name, daemon=True)
        self.address = address
        self.failure: BaseException | None = None
        self.random = random.Random(name)
        self.numbers = 0
        self._history = history
        self._stopping = threading.Event()

    def run(self) -> None:
        """Run, and keep the exception that ends it."""
        try:
            while not self._stopping.is_set():
                self.live()
        except BaseException as error:  # noqa: BLE001 - given to the test's own thread by `stop`
            self.failure = error

    def live(self) -> None:
        """Work until `is_stopping`, or until the client must be replaced."""
        raise NotImplementedError

    def record(self, f: str, type_: str, **value: Any) -> None:
        """Record an operation."""
        self._history.write(self.name, f, type_, **value)

    def names(self, place: Place, count: int) -> list[str]:
        """Return the names of the next records for a partition."""
        first = self.numbers
        self.numbers += count
        return [f"{place[0]},{place[1]},{self.name},{each}" for each in range(first, first + count)]

    def pause(self) -> None:
        """Sleep, so that the other workers run."""
        self._stopping.wait(PAUSE_S)

    @property
    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._stopping.is_set()

    def catch_up(self) -> None:
        """Return once everything that it has done by now is recorded: at once."""

    def ask_to_stop(self) -> None:
        """Ask it to end; `stop` waits for that."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop, wait, and raise what went wrong."""
        self._stopping.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} hangs"
        if self.failure is not None:
            raise self.failure


class ConnectedWorker(Worker, Generic[Client]):
    """Works on its own connection; when that breaks, on another one."""

    BROKEN: ClassVar[Exceptions] = (OSError,)

    def connect(self) -> Client:
        """Return a new connection."""
        raise NotImplementedError

    def close(self, client: Client) -> None:
        """Close a connection."""
        client.close()

    def work(self, client: Client) -> None:
        """Do some of it."""
        raise NotImplementedError

    def live(self) -> None:
        try:
            client = self.connect()
        except OSError:
            time.sleep(POLL_INTERVAL_S)  # The broker is down: ask again soon.
            return
        try:
            while not self.is_stopping:
                self.work(client)
                self.pause()
        except self.BROKEN:
            time.sleep(POLL_INTERVAL_S)
        finally:
            self.close(client)


def kill_again_and_again(
    broker: BrokerProcess,
    history: Recorder,
    workers: list[Worker],
    moments: random.Random,
    cycles: int,
    look: Callable[[], None],
) -> None:
    """Kill and restart; call `look` in each run; wait for all workers in some and in the last."""
    for run in range(cycles + 1):
        before = history.done()
        target = sum(before.values()) + moments.randint(*DONE_PER_LIFE)
        for_all = run % EVERYBODY_EACH == 0 or run == cycles

        def has_gone_on(
            before: dict[str, int] = before, target: int = target, *, for_all: bool = for_all
        ) -> bool:
            now = history.done()
            return any(worker.failure for worker in workers) or (
                sum(now.values()) >= target and not (for_all and idle(workers, before, now))
            )

        try:
            wait_until(has_gone_on, f"load continues in run {run}", RUN_TIMEOUT_S)
        except AssertionError as error:
            waiting = idle(workers, before, history.done())
            raise AssertionError(f"{waiting} made no progress in run {run}") from error
        assert not any(worker.failure for worker in workers), [w.failure for w in workers]
        if run < cycles:
            history.write("nemesis", "crash", "info", kind="kill")
            broker.kill()
            broker.restart()
            history.write("nemesis", "heal", "info")
            look()


def idle(workers: list[Worker], before: dict[str, int], now: dict[str, int]) -> list[str]:
    """Return the names of the workers without a response since then."""
    return [each.name for each in workers if now.get(each.name, 0) <= before.get(each.name, 0)]

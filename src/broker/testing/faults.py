"""Faults and the clock of a running broker, as a test asks for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol, Self

from broker import codec
from broker.model.given import nearest_name
from broker.testing import refusals


class Steered(Protocol):
    """A broker that is asked for something."""

    @property
    def run_number(self) -> int:
        """Which of its starts is the last one."""

    @property
    def pid(self) -> int | None:
        """Its process id; None if it does not run."""

    def ask(self, do: str, **fields: object) -> Any:  # noqa: ANN401 - see child.py
        """Return the broker's answer."""


class Fault:
    """A fault, in force from its creation; as a context manager it ends with the block."""

    def __init__(self, broker: Steered, fields: dict[str, object]) -> None:
        """Put it into force."""
        self._broker = broker
        self._run_number = broker.run_number
        self._number: int = broker.ask("add", **fields)
        self._hits: int | None = None  # after its end

    @property
    def hits(self) -> int:
        """How many requests it has hit."""
        if not self._is_in_force:
            return self._hits or 0
        return int(self._broker.ask("hits", number=self._number))

    def end(self) -> None:
        """End it; it may have ended, also with the broker."""
        if self._is_in_force:
            self._hits = int(self._broker.ask("remove", number=self._number))

    @property
    def _is_in_force(self) -> bool:
        return self._hits is None and _still_runs(self._broker, self._run_number)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.end()


class Faults:
    """The faults of one broker.

    A fault is in force at once, for the next `count` requests, or until it ends. The names of APIs
    and errors are Kafka's. Requests of the fixture itself are never hit. A restart ends all faults.
    """

    def __init__(self, broker: Steered) -> None:
        """Keep the broker."""
        self._broker = broker

    def error(
        self,
        api: str,
        error: str,
        *,
        count: int | None = None,
        topic: str = "",
        partition: int | None = None,
        client_id: str = "",
    ) -> Fault:
        """Answer requests with an error, without serving them; the rest of a request is served.

        Args:
            api: such as "Produce".
            error: such as "NOT_LEADER_OR_FOLLOWER".
            count: of requests; None for all until the fault ends.
            topic: only for this topic.
            partition: only for this partition.
            client_id: only for clients with this id.
        """
        key = _key(api)
        if (topic or partition is not None) and not refusals.has_partitions(key):
            raise ValueError(f"a request of {api} has no partitions: leave topic and partition out")
        fields = {
            "api": api,
            "error": codec.error_named(error).code,
            "count": count,
            "topic": topic,
            "partition": partition,
            "client_id": client_id,
        }
        return Fault(self._broker, fields)

    def latency(
        self, api: str, milliseconds: int, *, count: int | None = None, client_id: str = ""
    ) -> Fault:
        """Serve requests of an API, or of all ("*"), later."""
        fields = {"api": _name(api), "latency_ms": milliseconds, "count": count}
        return Fault(self._broker, {**fields, "client_id": client_id})

    def disconnect(
        self,
        api: str,
        when: Literal["before", "during", "after"] = "before",
        *,
        count: int | None = None,
        client_id: str = "",
    ) -> Fault:
        """Close the connection of requests of an API, or of all ("*").

        Args:
            api: such as "Produce".
            when: "before" the request is served; "during" its response, of which only the first
                bytes are sent; "after" it was served, instead of the response.
            count: of requests; None for all until the fault ends.
            client_id: only for clients with this id.
        """
        if when not in {"before", "during", "after"}:
            raise ValueError(f"when={when!r}: before, during or after")
        fields = {"api": _name(api), "disconnect": when, "count": count}
        return Fault(self._broker, {**fields, "client_id": client_id})

    def disconnect_all(self) -> int:
        """Close all connections; return how many there were."""
        return int(self._broker.ask("disconnect"))

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Let the disk be full, as the broker sees it: it refuses writes and goes on reading."""
        self._broker.ask("disk", is_full=True)
        run_number = self._broker.run_number
        try:
            yield
        finally:
            if _still_runs(self._broker, run_number):
                self._broker.ask("disk", is_full=False)


class BrokerClock:
    """The clock of one broker; it keeps its difference over restarts, `reset` takes it back.

    The timeouts of connections, sessions and waiting fetches follow the true monotonic clock.
    """

    def __init__(self, when_set: Callable[[], None]) -> None:
        """Start without a difference; `when_set` is called after each change."""
        self.step_ms = 0
        self.passed_ms = 0
        self._when_set = when_set

    def advance(self, seconds: float) -> None:
        """Let time pass: retention and expiry see records and offsets that much older."""
        self.passed_ms += round(seconds * 1000)
        self._when_set()

    def step(self, seconds: float) -> None:
        """Set the wall clock wrong, forward or back, as a faulty time server does."""
        self.step_ms += round(seconds * 1000)
        self._when_set()

    def clear(self) -> None:
        """Take both back, without telling the broker."""
        self.step_ms = self.passed_ms = 0


def _still_runs(broker: Steered, run_number: int) -> bool:
    return broker.pid is not None and broker.run_number == run_number


def _name(api: str) -> str:
    if api == "*":
        return ""
    _key(api)
    return api


def _key(api: str) -> int:
    for key, name in codec.API_KEYS.items():
        if name == api:
            return key
    nearest = nearest_name(api, codec.API_KEYS.values())
    raise ValueError(f"Kafka has no API named {api!r}{nearest}")

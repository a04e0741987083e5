"""Short words for the operations of hand-made histories.

A history is a list of them; each is a second behind the one before, unless it says `at`. Without
`place` they are about partition 0 of topic `t`.
"""

from collections.abc import Sequence
from typing import Any

from tests.histories.facts import Place
from tests.histories.history import Operation

HERE: Place = ("t", 0)
Step = tuple[str, str, str, float | None, dict[str, Any]]
GROUP = "g"


def history(steps: Sequence[Step]) -> list[Operation]:
    """Give each step its time."""
    found: list[Operation] = []
    t = 0.0
    for process, f, type_, at, value in steps:
        t = t + 1 if at is None else at
        found.append(Operation(process, f, type_, t, value))
    return found


def step(process: str, f: str, type_: str = "ok", *, at: float | None = None, **value: Any) -> Step:
    """An operation as it is."""
    return process, f, type_, at, value


def here(place: Place) -> dict[str, Any]:
    """The fields of a partition."""
    return {"topic": place[0], "partition": place[1]}


def asked(
    process: str,
    *values: str | None,
    place: Place = HERE,
    delivery: str = "idempotent",
    **more: Any,
) -> Step:
    """A send whose answer is still to come."""
    return step(
        process, "send", "invoke", values=list(values), delivery=delivery, **here(place), **more
    )


def sent(
    process: str,
    offset: int,
    *values: str | None,
    place: Place = HERE,
    delivery: str = "idempotent",
    **more: Any,
) -> Step:
    """A send that was acknowledged."""
    return step(
        process,
        "send",
        values=list(values),
        delivery=delivery,
        offset=offset,
        **here(place),
        **more,
    )


def refused(process: str, *values: str, place: Place = HERE) -> Step:
    """A send that has surely written nothing."""
    return step(process, "send", "fail", values=list(values), delivery="once", **here(place))


def read(
    process: str,
    *records: tuple[int, str | None] | tuple[int, str | None, str],
    place: Place = HERE,
    **more: Any,
) -> Step:
    """A poll of committed records: (offset, value) or (offset, value, key)."""
    return step(process, "poll", records=[list(each) for each in records], **here(place), **more)


def dirty(process: str, *records: tuple[int, str | None], **more: Any) -> Step:
    """A poll of uncommitted records."""
    return read(process, *records, isolation="uncommitted", **more)


def starts(process: str, position: int, place: Place = HERE, **more: Any) -> Step:
    """A reader goes to a position."""
    return step(process, "assign", position=position, **here(place), **more)


def begin(name: str, transactional_id: str = "T", **more: Any) -> Step:
    """A transaction begins."""
    return step("p", "begin", transaction=name, transactional_id=transactional_id, **more)


def end(name: str, type_: str = "ok", *, commit: bool = True, at: float | None = None) -> Step:
    """A transaction ends."""
    return step("p", "end", type_, at=at, transaction=name, commit=commit)


def commit(process: str, offset: int, type_: str = "ok", **more: Any) -> Step:
    """A group's offset."""
    return step(process, "commit", type_, group=GROUP, offset=offset, **here(HERE), **more)


def fetched(process: str, offset: int) -> Step:
    """A group's offset as it is told."""
    return step(process, "fetch_committed", group=GROUP, offset=offset, **here(HERE))


def owns(process: str, generation: int, at: float | None = None) -> Step:
    """A member gets a partition."""
    return step(process, "assign", group=GROUP, generation=generation, at=at, **here(HERE))


def beats(process: str, generation: int, at: float | None = None) -> Step:
    """A member's heartbeat is taken."""
    return step(process, "heartbeat", group=GROUP, generation=generation, at=at, **here(HERE))


def loses(process: str) -> Step:
    """A member gives a partition back."""
    return step(process, "revoke", group=GROUP, **here(HERE))


def shown(
    process: str, earliest: int, latest: int, stable: int | None = None, at: float | None = None
) -> Step:
    """The ends of a log as a client is told them."""
    more: dict[str, Any] = {} if stable is None else {"stable": stable}
    return step(
        process, "list_offsets", at=at, earliest=earliest, latest=latest, **here(HERE), **more
    )


def created(cleanup: str = "none", durability: str = "group-commit", topic: str = "t") -> Step:
    """A topic is made."""
    return step("admin", "create", topic=topic, cleanup=cleanup, durability=durability)


def deleted(topic: str = "t", type_: str = "ok") -> Step:
    """A topic is deleted."""
    return step("admin", "delete", type_, topic=topic)


def listed(*topics: str) -> Step:
    """All topics, as a client is told them."""
    return step("admin", "list_topics", topics=list(topics))


def killed(kind: str = "kill", window_s: float = 0.0, at: float | None = None) -> Step:
    """The broker ends."""
    return step("nemesis", "crash", "info", at=at, kind=kind, window_s=window_s)


def healed(at: float | None = None) -> Step:
    """The broker is there again."""
    return step("nemesis", "heal", "info", at=at)

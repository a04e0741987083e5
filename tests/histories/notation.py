"""A concise notation for the operations of hand-made histories.

A history is a list of them; each is a second after the previous one, unless it has `at`. Without
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
    """Return a send without a response yet."""
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
    """Return an acknowledged send."""
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
    """Return a send that has certainly written nothing."""
    return step(process, "send", "fail", values=list(values), delivery="once", **here(place))


def read(
    process: str,
    *records: tuple[int, str | None] | tuple[int, str | None, str],
    place: Place = HERE,
    **more: Any,
) -> Step:
    """Return a poll of committed records: (offset, value) or (offset, value, key)."""
    return step(process, "poll", records=[list(each) for each in records], **here(place), **more)


def dirty(process: str, *records: tuple[int, str | None], **more: Any) -> Step:
    """Return a poll of uncommitted records."""
    return read(process, *records, isolation="uncommitted", **more)


def starts(process: str, position: int, place: Place = HERE, **more: Any) -> Step:
    """Return a seek of a reader."""
    return step(process, "assign", position=position, **here(place), **more)


def begin(name: str, transactional_id: str = "T", **more: Any) -> Step:
    """Return the begin of a transaction."""
    return step("p", "begin", transaction=name, transactional_id=transactional_id, **more)


def end(name: str, type_: str = "ok", *, commit: bool = True, at: float | None = None) -> Step:
    """Return the end of a transaction."""
    return step("p", "end", type_, at=at, transaction=name, commit=commit)


def commit(process: str, offset: int, type_: str = "ok", **more: Any) -> Step:
    """Return a commit of a group's offset."""
    return step(process, "commit", type_, group=GROUP, offset=offset, **here(HERE), **more)


def fetched(process: str, offset: int) -> Step:
    """Return a fetch of a group's offset."""
    return step(process, "fetch_committed", group=GROUP, offset=offset, **here(HERE))


def owns(process: str, generation: int, at: float | None = None) -> Step:
    """Return the assignment of a partition to a member."""
    return step(process, "assign", group=GROUP, generation=generation, at=at, **here(HERE))


def beats(process: str, generation: int, at: float | None = None) -> Step:
    """Return an accepted heartbeat of a member."""
    return step(process, "heartbeat", group=GROUP, generation=generation, at=at, **here(HERE))


def loses(process: str) -> Step:
    """Return the revocation of a partition."""
    return step(process, "revoke", group=GROUP, **here(HERE))


def shown(
    process: str, earliest: int, latest: int, stable: int | None = None, at: float | None = None
) -> Step:
    """Return the ends of a log as listed to a client."""
    more: dict[str, Any] = {} if stable is None else {"stable": stable}
    return step(
        process, "list_offsets", at=at, earliest=earliest, latest=latest, **here(HERE), **more
    )


def created(cleanup: str = "none", durability: str = "group-commit", topic: str = "t") -> Step:
    """Return the creation of a topic."""
    return step("admin", "create", topic=topic, cleanup=cleanup, durability=durability)


def deleted(topic: str = "t", type_: str = "ok") -> Step:
    """Return the deletion of a topic."""
    return step("admin", "delete", type_, topic=topic)


def listed(*topics: str) -> Step:
    """Return all topics as listed to a client."""
    return step("admin", "list_topics", topics=list(topics))


def killed(kind: str = "kill", window_s: float = 0.0, at: float | None = None) -> Step:
    """Return the end of the broker."""
    return step("nemesis", "crash", "info", at=at, kind=kind, window_s=window_s)


def healed(at: float | None = None) -> Step:
    """Return the restart of the broker."""
    return step("nemesis", "heal", "info", at=at)

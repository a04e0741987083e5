"""Quotas on the requests that Python serves (KIP-13, KIP-124, KIP-219, KIP-599).

The native paths of Produce and Fetch count by themselves. Every other request of a client with a
quota has a Meter, which counts when the answer is there:

    Produce    the bytes of the request; it is answered, and the client rests afterwards
    Fetch      the bytes of the response; above the quota it is empty instead, and does not count
    any        the time of the loop that the request takes

An answer above a quota tells for how long the client has to rest, if its version can, and nothing
is read from the connection for that time.
"""

from collections.abc import Awaitable, Generator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from broker.codec import schema
from broker.core.session import Session
from broker.model.clock import monotonic_ns
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import FETCH_BYTES_MAX
from broker.protocols.base import Answer, Deferred, Immediate, Reply

if TYPE_CHECKING:
    from broker._native.wire.quota import ClientQuota
    from broker.core.security.quotas.mutations import MutationBucket

_PRODUCE: Final = 0
_FETCH: Final = 1
# Whose time does not count: logins, and what brokers send each other (SaslHandshake,
# SaslAuthenticate; WriteTxnMarkers).
_WITHOUT_TIME: Final = frozenset((17, 27, 36))
_FIELD: Final = "throttle_time_ms"
_FIELD_BYTES: Final = 4
_NS_PER_PERCENT: Final = 10_000_000  # of a second


def quota_of(session: Session) -> "ClientQuota | None":
    """Return what limits the request that a session is serving; None: nothing."""
    quota = session.quota
    if quota is None or quota.is_unlimited:
        return None
    quotas = session.broker.security.quotas
    return quota if quotas is not None and quotas.is_limiting else None


def fetch_bytes_max(session: Session) -> int:
    """Return how many bytes a response to a fetch may have: more could never be sent."""
    quota = quota_of(session)
    if quota is None or quota.reads is None:
        return FETCH_BYTES_MAX
    return int(min(quota.reads.burst, FETCH_BYTES_MAX))


def limits_mutations(session: Session) -> bool:
    """Whether partitions that the client creates and deletes are counted."""
    return _mutations(session) is not None


def take_mutations(session: Session, count: int, *, is_strict: bool) -> None:
    """Count partitions that are about to be created or deleted.

    Above the quota the client rests. If it `is_strict`, as versions are whose clients know the
    error, it is refused first.

    Raises:
        RequestError: THROTTLING_QUOTA_EXCEEDED.
    """
    bucket = _mutations(session)
    if bucket is None:
        return
    now_ms = session.broker.clock.monotonic_ms()
    if is_strict and (deficit_ms := bucket.deficit_ms(now_ms)):
        session.throttle_ms = max(session.throttle_ms, deficit_ms)
        raise RequestError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    bucket.take(count, now_ms)
    if not is_strict:
        session.throttle_ms = max(session.throttle_ms, bucket.deficit_ms(now_ms))


def _mutations(session: Session) -> "MutationBucket | None":
    quota = quota_of(session)
    return None if quota is None else cast("MutationBucket | None", quota.mutations)


class Meter:
    """Counts what one request takes, and makes its answer tell when that was too much."""

    __slots__ = ("_key", "_quota", "_session", "_size", "_spent_ns", "_version")

    def __init__(
        self, quota: "ClientQuota", session: Session, key: int, version: int, size: int
    ) -> None:
        """Begin before the request of `size` bytes is served."""
        self._quota = quota
        self._session = session
        self._key = key
        self._version = version
        self._size = size
        self._spent_ns = -monotonic_ns()
        session.throttle_ms = 0

    def reply(self, reply: Reply) -> Reply:
        """Return the reply as the quotas make it."""
        self._spent_ns += monotonic_ns()
        if isinstance(reply, (bytes, Answer)):
            return self._finish(reply)
        if isinstance(reply, Deferred):
            return Deferred(reply.future, lambda _: self._finish_deferred(reply))
        return self._finish_later(reply)

    def _finish_deferred(self, reply: Deferred[Any, Immediate]) -> Immediate:
        self._spent_ns -= monotonic_ns()
        answer = reply.answer()
        self._spent_ns += monotonic_ns()
        return self._finish(answer)

    async def _finish_later(self, reply: Awaitable[Immediate]) -> Immediate:
        return self._finish(await _Timed(reply, self))

    def add_time(self, duration_ns: int) -> None:
        """Count time of the loop."""
        self._spent_ns += duration_ns

    def _finish(self, answer: Immediate) -> Immediate:
        whole = Answer(answer) if isinstance(answer, bytes) else answer
        rest_ms = self._rest_ms(whole.body)
        if rest_ms == 0:
            return answer
        body = whole.body
        if body is not None:
            if self._key == _FETCH:
                body = schema.response(_FETCH).encode(self._version, {})
            body = told(self._key, self._version, body, rest_ms)
        return whole._replace(body=body, throttle_ms=rest_ms)

    def _rest_ms(self, body: bytes | None) -> int:
        quota, now_ms = self._quota, self._session.broker.clock.monotonic_ms()
        rest_ms = self._session.throttle_ms
        if quota.time is not None and self._key not in _WITHOUT_TIME:
            rest_ms = max(rest_ms, quota.time.add(self._spent_ns / _NS_PER_PERCENT, now_ms))
        if quota.writes is not None and self._key == _PRODUCE:
            rest_ms = max(rest_ms, quota.writes.add(self._size, now_ms))
        if quota.reads is not None and self._key == _FETCH and body is not None:
            rest_ms = max(rest_ms, quota.reads.excess_ms(len(body), now_ms))
            if rest_ms == 0:
                quota.reads.add(len(body), now_ms)
        return rest_ms


class _Timed:
    """Awaits work, and counts the time of its steps but not that of its waits."""

    __slots__ = ("_meter", "_work")

    def __init__(self, work: Awaitable[Immediate], meter: Meter) -> None:
        self._work = work
        self._meter = meter

    def __await__(self) -> Generator[Any, Any, Immediate]:
        """Advance the work step by step, as the event loop does with a coroutine."""
        steps = self._work.__await__()
        raised: BaseException | None = None
        while True:
            begun_ns = monotonic_ns()
            try:
                awaited = next(steps) if raised is None else steps.throw(raised)
            except StopIteration as end:
                result: Immediate = end.value
                return result
            finally:
                self._meter.add_time(monotonic_ns() - begun_ns)
                raised = None  # its traceback refers to this frame: no cycle
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - the work's own
                raised = error


def told(key: int, version: int, body: bytes, rest_ms: int) -> bytes:
    """Return an encoded response with a throttle time; unchanged if its version has none."""
    place = _place(key, version)
    if place is None:
        return body
    if place == 0:
        return rest_ms.to_bytes(_FIELD_BYTES, "big") + body[_FIELD_BYTES:]
    message = schema.response(key)
    fields, _ = message.decode(version, body)
    return message.encode(version, {**fields, _FIELD: rest_ms})


@cache
def _place(key: int, version: int) -> int | None:
    """Return which field of a response the throttle time is; None: the version has none."""
    names = [each.name for each in schema.response(key).fields if version in each.versions]
    return names.index(_FIELD) if _FIELD in names else None

"""Responses that many clients ask for at once: made once for all of them, and cached.

Each response describes a state that has a revision. A request gets a response that was begun at the
revision of the request's arrival or later: a cached one of this revision, one in the making that
was begun at this revision, or else one that has not been begun. Only one response is made at a
time, so work and memory do not grow with the number of requests or changes. The state may change
between two steps of the making; the response may then have parts of both states.
"""

from asyncio import AbstractEventLoop, Future, Task, get_running_loop, shield
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeAlias

# Makes a response, in steps.
Make: TypeAlias = Callable[[], Awaitable[bytes]]


class _Making:
    """A response that is queued, or being made."""

    __slots__ = ("future", "make", "revision")

    def __init__(self, make: Make, loop: AbstractEventLoop) -> None:
        self.make = make
        self.future: Future[bytes] = loop.create_future()
        self.revision: Hashable = None  # at which it was begun


class ResponseCache:
    """A cache of responses with a limit in bytes, and the queue of those to be made."""

    def __init__(self, revision: Callable[[], Hashable], bytes_max: int) -> None:
        """Start empty.

        Args:
            revision: returns the current revision of the described state.
            bytes_max: the size of the cache; the least recently used response is evicted.
        """
        self._revision = revision
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._kept_revision: Hashable = None  # of all cached responses
        self._waiting: OrderedDict[Hashable, _Making] = OrderedDict()
        self._under_way: tuple[Hashable, _Making] | None = None
        self._worker: Task[None] | None = None

    async def get(self, key: Hashable, make: Make) -> bytes:
        """Return the response for a key; raises what `make` raises.

        Args:
            key: everything that the response depends on in addition to the state.
            make: makes the response, unless it is cached or in the making.
        """
        revision = self._revision()
        if revision == self._kept_revision and key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        return await shield(self._making(key, make, revision).future)

    def _making(self, key: Hashable, make: Make, revision: Hashable) -> _Making:
        if self._under_way is not None:
            made_key, making = self._under_way
            if made_key == key and making.revision == revision:
                return making
        waiting = self._waiting.get(key)
        if waiting is None:
            loop = get_running_loop()
            waiting = self._waiting[key] = _Making(make, loop)
            if self._worker is None or self._worker.done():
                self._worker = loop.create_task(self._work())
        return waiting

    async def _work(self) -> None:
        while self._waiting:
            key, making = self._waiting.popitem(last=False)
            making.revision = self._revision()
            self._under_way = key, making
            try:
                body = await making.make()
            except Exception as error:  # noqa: BLE001 - raised by the requesters
                making.future.set_exception(error)
                making.future.exception()  # all requesters may have gone: asyncio need not warn
            else:
                making.future.set_result(body)
                self._keep(key, making.revision, body)
            finally:
                self._under_way = None

    def _keep(self, key: Hashable, revision: Hashable, body: bytes) -> None:
        if revision != self._revision() or len(body) > self._bytes_max:
            return
        if revision != self._kept_revision:
            self._kept.clear()
            self._bytes = 0
            self._kept_revision = revision
        self._bytes += len(body) - len(self._kept.pop(key, b""))
        self._kept[key] = body
        while self._bytes > self._bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)

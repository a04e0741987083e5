"""Answers that many ask for at once, made once for all of them and kept until they are outdated.

Each answer tells of a state that has a revision. Who asks gets an answer whose making began at the
revision of that moment or later: one that is kept and of this revision, one that is being made and
was begun at this revision, else one whose making has not begun yet. Only one answer is made at a
time, so the work and memory do not grow with how many ask or how often the state changes; between
its steps the state may change, and the answer may then have parts of both states.
"""

from asyncio import AbstractEventLoop, Future, Task, get_running_loop, shield
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeAlias

# Makes an answer, in steps.
Make: TypeAlias = Callable[[], Awaitable[bytes]]


class _Making:
    """An answer that is to be made, or is being made."""

    __slots__ = ("future", "make", "revision")

    def __init__(self, make: Make, loop: AbstractEventLoop) -> None:
        self.make = make
        self.future: Future[bytes] = loop.create_future()
        self.revision: Hashable = None  # at which it was begun


class SharedAnswers:
    """The answers that are kept, at most so many bytes of them, and those that are being made."""

    def __init__(self, revision: Callable[[], Hashable], bytes_max: int) -> None:
        """Begin with none.

        Args:
            revision: of the state that all answers tell of, as it is now.
            bytes_max: how many bytes may be kept; the answer that was asked for least recently
                makes room.
        """
        self._revision = revision
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._kept_revision: Hashable = None  # of all that is kept
        self._waiting: OrderedDict[Hashable, _Making] = OrderedDict()
        self._under_way: tuple[Hashable, _Making] | None = None
        self._worker: Task[None] | None = None

    async def get(self, key: Hashable, make: Make) -> bytes:
        """The answer of that key; raises what its making raises.

        Args:
            key: all that the answer depends on beside the state.
            make: makes it, when nobody else has it made already.
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
            except Exception as error:  # noqa: BLE001 - whoever asked sorts it
                making.future.set_exception(error)
                making.future.exception()  # nobody may be left who asks: no reason to warn
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

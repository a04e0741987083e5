"""Runs coroutine functions at once up to their first wait, without a task if there is none.

A task costs 20 us and a turn of the loop before its first line runs. Work that often ends without a
wait is begun by its caller instead; only the rest of it needs a task, as an eager task of Python
3.12 does.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def run_to_first_wait(
    work: Callable[_P, Coroutine[Any, Any, _T]],
) -> Callable[_P, _T | Awaitable[_T]]:
    """Make a coroutine function whose calls begin at once.

    A call returns the result if the work ends without a wait, else what has to be awaited for it,
    and raises what the work raises before its first wait. Up to there it has no task: it must not
    ask for the current one.
    """

    @wraps(work)
    def begin(*arguments: _P.args, **named: _P.kwargs) -> _T | Awaitable[_T]:
        begun = work(*arguments, **named)
        try:
            awaited = begun.send(None)
        except StopIteration as end:
            result: _T = end.value
            return result
        return _Begun(begun, awaited)

    return begin


class _Begun(Generic[_T]):
    """Work that has reached its first wait; it continues when this object is awaited."""

    __slots__ = ("_awaited", "_work")

    def __init__(self, work: Coroutine[Any, Any, _T], awaited: object) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, _T]:
        """Pass on to the work what the loop sends to it or throws."""
        awaited = self._awaited
        try:
            while True:
                try:
                    sent = yield awaited
                except BaseException as error:  # noqa: BLE001 - the work's own
                    awaited = self._work.throw(error)
                else:
                    awaited = self._work.send(sent)
        except StopIteration as end:
            result: _T = end.value
            return result

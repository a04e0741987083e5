"""--watch: the same rows again and again, until they are as wanted or the user stops it."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from broker.cli.times import Seconds

if TYPE_CHECKING:
    from broker.cli.frame import Session


def watch_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --watch."""
    return click.option(
        "-w",
        "--watch",
        type=Seconds(),
        metavar="SECONDS",
        help="Show it again every SECONDS, until Ctrl-C.",
    )(function)


def watched(
    session: "Session", seconds: float | None, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Yield once per round; without `seconds` there is one."""
    yield
    while seconds is not None:
        session.output.end_round()
        sleep(seconds)
        yield

"""What was looked at, and how it is: the rows of `cluster health` and `doctor`."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.cli.output import size_text

PROBLEM: Final = "problem"
WARNING: Final = "warning"
OK: Final = "ok"
DISK_FREE_PERCENT_LOW: Final = 15
DISK_FREE_PERCENT_PROBLEM: Final = 5


class Check(NamedTuple):
    """One thing that was looked at.

    Attributes:
        check: what: disk, broker, ...; the help of the command names them.
        severity: ok, warning, or problem.
        subject: what exactly: a broker, a file, a directory, TOPIC-PARTITION; "" for all.
        reason: what is so.
        fix: what to do; "" if nothing is to be done.
    """

    check: str
    severity: str
    subject: str
    reason: str
    fix: str


def sorted_checks(found: Iterable[Check]) -> list[Check]:
    """Return them, problems first."""
    order = (PROBLEM, WARNING, OK)
    return sorted(found, key=lambda each: order.index(each.severity))


def has_problem(found: Iterable[Check]) -> bool:
    """Return whether one of them is a problem."""
    return any(each.severity == PROBLEM for each in found)


def disk_check(subject: str, usable: int, total: int) -> Check:
    """Check the free space of a file system."""
    percent = 100 * usable / total
    severity = OK
    if percent < DISK_FREE_PERCENT_LOW:
        severity = PROBLEM if percent < DISK_FREE_PERCENT_PROBLEM else WARNING
    return Check(
        "disk",
        severity,
        subject,
        f"{percent:.0f} % are free: {size_text(usable)} of {size_text(total)}",
        "" if severity == OK else "lower retention.bytes or retention.ms, or add disk space",
    )

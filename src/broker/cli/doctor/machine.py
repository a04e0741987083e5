"""What any broker on this machine has: versions, and the limits of processes."""

import resource
from collections.abc import Iterator
from typing import Final

from broker.cli.checks import OK, PROBLEM, WARNING, Check
from broker.cli.version import versions
from broker.model.errors import ConfigError
from broker.server.descriptors import shared_out

_DESCRIPTORS_GOOD: Final = 10_000
_RAISE: Final = "raise the hard limit: `ulimit -Hn 65536`, LimitNOFILE=65536 of a systemd unit"


def machine_checks() -> Iterator[Check]:
    """Look at this machine."""
    found = versions()
    yield Check(
        "versions",
        OK,
        "",
        f"polylog {found.version}, {found.implementation} {found.python}, {found.platform}",
        "",
    )
    yield _descriptors()


def _descriptors() -> Check:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return Check("descriptors", OK, "", "there is no limit", "")
    try:
        shares = shared_out(hard)
    except ConfigError:
        return Check("descriptors", PROBLEM, "", f"{hard} files: too few for a start", _RAISE)
    is_good = hard >= _DESCRIPTORS_GOOD
    return Check(
        "descriptors",
        OK if is_good else WARNING,
        "",
        f"{hard} files: {shares.connections} connections, and {shares.segments} open segments",
        "" if is_good else _RAISE,
    )

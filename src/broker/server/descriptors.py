"""How the descriptors that a process may have are shared out, so that none of its parts has none.

    connections    half of them: one more is refused as soon as it is accepted
    segments       the other half, less those to spare: the longest unused is closed for another
    the rest       SPARE_DESCRIPTORS: listeners, the metadata store, small files, folders, pipes

A partition that nobody uses holds none, so how many there are is no matter of descriptors.
"""

import resource
from typing import NamedTuple

from broker.model.errors import ConfigError
from broker.model.limits import DESCRIPTORS_MIN, SPARE_DESCRIPTORS


class Shares(NamedTuple):
    """Most of each at the same time."""

    connections: int
    segments: int


def shared_out(descriptors: int) -> Shares:
    """What each may have of so many. ConfigError: they are too few."""
    if descriptors < DESCRIPTORS_MIN:
        raise ConfigError(
            f"the process may open {descriptors} files, fewer than the {DESCRIPTORS_MIN} that it"
            " needs; raise the hard limit (ulimit -Hn, LimitNOFILE=)"
        )
    half = descriptors // 2
    return Shares(half, descriptors - half - SPARE_DESCRIPTORS)


def of_this_process() -> Shares:
    """What each may have of the process's own. ConfigError: they are too few."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return shared_out(descriptors)

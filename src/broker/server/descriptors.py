"""Division of the process's file descriptors, so that none of its parts runs out of them.

    connections    half of them: a connection above that is refused when it is accepted
    segments       the other half without the rest: the least recently used is closed for another
    the rest       SPARE_DESCRIPTORS: listeners, the metadata store, small files, folders, pipes

An unused partition has no open file, so the number of partitions is not limited by descriptors.
"""

import resource
from typing import NamedTuple

from broker.model.errors import ConfigError
from broker.model.limits import DESCRIPTORS_MIN, SPARE_DESCRIPTORS


class Shares(NamedTuple):
    """The largest number of each at the same time."""

    connections: int
    segments: int


def shared_out(descriptors: int) -> Shares:
    """Divide this many descriptors; ConfigError if they are too few."""
    if descriptors < DESCRIPTORS_MIN:
        raise ConfigError(
            f"the process may open {descriptors} files, fewer than the {DESCRIPTORS_MIN} that it"
            " needs; raise the hard limit (ulimit -Hn, LimitNOFILE=)"
        )
    half = descriptors // 2
    return Shares(half, descriptors - half - SPARE_DESCRIPTORS)


def of_this_process() -> Shares:
    """Divide the descriptors that the process may have; ConfigError if they are too few."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return shared_out(descriptors)

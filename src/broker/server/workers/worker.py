"""What a worker was given by its supervisor.

Two pipes connect them. The worker writes a byte when it serves clients. The supervisor closes its
end to stop the worker; so does the kernel when the supervisor ends in whatever way.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from broker.model.address import Address


class Worker(NamedTuple):
    """One worker, in its own process."""

    node_ids: Sequence[int]  # of all workers
    shared: Sequence[Address]
    own: Address
    advertised: Address | None
    ready_fd: int
    stop_fd: int

    @property
    def reached(self) -> Address:
        """The address of its own port, with one host."""
        return self.own._replace(host=self.own.bind_hosts[0], protocol="")

    def report_ready(self) -> None:
        """Tell the supervisor that clients are served."""
        with suppress(BrokenPipeError):
            os.write(self.ready_fd, b"r")

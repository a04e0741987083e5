"""A lease: etcd deletes the keys attached to it when it has not been renewed for its time to live.

    granted ── renewed every third of the time to live ──> … ──> revoked, by its owner
                    │ not renewed in time, or unknown to etcd
                    └──> lost, for ever: its owner stops what only one may do, and asks for another

`valid_until` counts from the moment a renewal was sent, on this machine's monotonic clock. etcd
counts from its receipt, and anew after it has elected a leader, so it never expires a lease before
that: an owner that stops at `valid_until` has stopped before anybody else can begin.
"""

import asyncio
import logging

from broker.model.errors import StorageError
from broker.storage.metadata.etcd.gateway import Gateway

_RENEWALS_PER_LIFE = 3

_log = logging.getLogger(__name__)


class Lease:
    """One lease.

    Attributes:
        id: the number of the lease, for operations that attach keys to it.
        valid_until: seconds of the monotonic clock; the lease is held before.
        lost: set once the lease can no longer be relied on.
    """

    def __init__(self, gateway: Gateway, lease_id: int, seconds: float, valid_until: float) -> None:
        """Keep a granted lease; `renew` renews it."""
        self.id = lease_id
        self.valid_until = valid_until
        self.lost = asyncio.Event()
        self._gateway = gateway
        self._seconds = seconds
        self._renewing = asyncio.ensure_future(self._renew())

    @property
    def is_held(self) -> bool:
        """Whether the lease can be relied on at this moment."""
        now = asyncio.get_running_loop().time()
        return not self.lost.is_set() and now < self.valid_until

    async def revoke(self) -> None:
        """Give the lease up: its keys are deleted now, not when it expires."""
        was_lost = self.lost.is_set()
        await self.abandon()
        if not was_lost:
            await self._gateway.call(
                "lease/revoke", {"ID": str(self.id)}, seconds=self._seconds, changes=False
            )

    async def abandon(self) -> None:
        """Stop renewing; etcd expires the lease."""
        self.lost.set()
        self._renewing.cancel()
        await asyncio.wait([self._renewing])

    async def _renew(self) -> None:
        clock = asyncio.get_running_loop().time
        pause = self._seconds / _RENEWALS_PER_LIFE
        while True:
            # Whatever an attempt takes, the next one begins a third of a life after its beginning.
            begun = clock()
            if begun >= self.valid_until:
                break
            try:
                left = await self._renewed(min(pause, self.valid_until - begun))
            except StorageError as error:
                _log.warning("lease not renewed: id=%x error=%s", self.id, error)
            else:
                if left <= 0:
                    break
                self.valid_until = begun + min(left, self._seconds)
            await asyncio.sleep(max(0.0, min(begun + pause, self.valid_until) - clock()))
        _log.error("lease lost: id=%x", self.id)
        self.lost.set()

    async def _renewed(self, seconds: float) -> float:
        """Return the time that etcd gives the lease now; 0 if it knows it no longer."""
        body = {"ID": str(self.id)}
        # Repeating a renewal harms nothing.
        answer = await self._gateway.call("lease/keepalive", body, seconds=seconds, changes=False)
        return float(answer.get("result", {}).get("TTL", 0))

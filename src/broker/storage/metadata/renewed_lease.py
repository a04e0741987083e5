"""A lease and its renewal, for every kind of store.

    granted ── renewed every third of the time to live ──> … ──> revoked, by its owner
                    │ not renewed in time, or unknown to the store
                    └──> lost, for ever: its owner stops what only one may do, and asks for another

`valid_until` counts from the moment before a renewal was sent, on this machine's monotonic clock.
The store counts from its receipt, and etcd anew after it has elected a leader, so a store never
expires a lease before that: an owner that stops at `valid_until` has stopped before anybody else
can begin.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.model.clock import monotonic
from broker.model.errors import StorageError

RENEWALS_PER_LIFE = 3

_log = logging.getLogger(__name__)


class RenewedLease:
    """One lease (storage/metadata/__init__.py has the interface)."""

    def __init__(
        self,
        lease_id: int,
        seconds: float,
        valid_until: float,
        *,
        renew: Callable[[float], Awaitable[float]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        """Renew a granted lease from now on.

        Args:
            lease_id: the store's number for it.
            seconds: its time to live, as granted.
            valid_until: until when the grant is valid.
            renew: renews it within so many seconds and returns how long the store gives it now, 0
                when it does not know it; StorageError when there is no answer.
            end: deletes it and its keys in the store.
        """
        self.id = lease_id
        self.valid_until = valid_until
        self.lost = asyncio.Event()
        self._on_renewal: Callable[[], None] | None = None
        self._seconds = seconds
        self._renew_once = renew
        self._end = end
        self._renewing = asyncio.ensure_future(self._renew())

    @property
    def is_held(self) -> bool:
        """Whether the lease can be relied on at this moment."""
        # Not the loop's time, which uvloop reads once per turn: the process may have been stopped.
        return not self.lost.is_set() and monotonic() < self.valid_until

    def when_renewed(self, callback: Callable[[], None]) -> None:
        """Have `callback` called after each renewal."""
        self._on_renewal = callback

    async def revoke(self) -> None:
        """Give the lease up: its keys are deleted now, not when it expires."""
        was_lost = self.lost.is_set()
        await self.abandon()
        if not was_lost:
            await self._end()

    async def abandon(self) -> None:
        """Stop renewing; the store expires the lease."""
        self.lost.set()
        self._renewing.cancel()
        await asyncio.wait([self._renewing])

    async def _renew(self) -> None:
        try:
            await self._renew_until_lost()
            _log.error("lease lost: id=%x", self.id)
        finally:
            self.lost.set()

    async def _renew_until_lost(self) -> None:
        pause = self._seconds / RENEWALS_PER_LIFE
        next_renewal = monotonic() + pause
        while True:
            await asyncio.sleep(max(0.0, min(next_renewal, self.valid_until) - monotonic()))
            # Whatever an attempt takes, the next one begins a third of a life after its beginning.
            begun = monotonic()
            if begun >= self.valid_until:
                return
            next_renewal = begun + pause
            try:
                left = await self._renew_once(min(pause, self.valid_until - begun))
            except StorageError as error:
                _log.warning("lease not renewed: id=%x error=%s", self.id, error)
                continue
            if left <= 0:
                return
            self.valid_until = begun + min(left, self._seconds)
            if self._on_renewal is not None:
                self._on_renewal()

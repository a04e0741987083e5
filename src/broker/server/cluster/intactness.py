"""Registers a data directory as intact since a time, and anew once it turns out not to be.

    registered as intact since then       that revision is made durable, for the next start
    durable records are found to be lost  the registration ends; the next one says so

A broker registers after it has recovered the replicas of its directory, within a limit: so a loss
is nearly always known before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from broker.core.cluster.membership import Membership
from broker.core.cluster.records import NO_EPOCH
from broker.core.scheduling.io_thread import IoThread
from broker.core.service import Service
from broker.model.errors import StorageError
from broker.model.limits import CLUSTER_RETRY_MS, RECOVERED_BEFORE_JOINING_SECONDS
from broker.server.cluster.member import Member
from broker.storage.checkpoints.intact import Intact

_log = logging.getLogger(__name__)


class Intactness(Service):
    """What this broker registers of its data directory."""

    name = "intactness of the data directory"
    is_essential = True

    def __init__(
        self, intact: Intact, membership: Membership, member: Member, io_thread: IoThread
    ) -> None:
        """Let the first registration say what the directory has."""
        self._intact = intact
        self._membership = membership
        self._member = member
        self._io_thread = io_thread
        self._losses = intact.losses  # when the present registration was begun
        self._something = asyncio.Event()
        membership.set_intact_since(intact.since)
        member.when_phase_changes(self._something.set)

    async def run(self) -> None:
        """Follow losses and registrations until cancelled."""
        loop = asyncio.get_running_loop()

        def is_lost() -> None:
            loop.call_soon_threadsafe(self._something.set)

        self._intact.when_lost = is_lost
        while True:
            await self._look()
            await self._something.wait()
            self._something.clear()

    async def recovered(self, until_loaded: Callable[[], Awaitable[None]]) -> None:
        """Wait until the logs of the start are loaded; then let the registration say what is lost.

        Not longer than a limit: whatever is found later ends the registration.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(RECOVERED_BEFORE_JOINING_SECONDS):
                await until_loaded()
        self._begin()

    def _begin(self) -> None:
        self._losses = self._intact.losses
        self._membership.set_intact_since(self._intact.since)

    @property
    def _registered(self) -> int:
        """Since when the directory is intact, by its registration.

        Later than by its file, if it was put back in the place of another one.
        """
        return self._membership.intact_since

    async def _look(self) -> None:
        if self._intact.losses != self._losses:
            _log.error(
                "this broker has lost records that were durable: it registers anew, and leads no"
                " partition that others have more of"
            )
            self._begin()
            await self._member.rejoin()
        elif self._member.epoch != NO_EPOCH and self._intact.since != self._registered:
            write = partial(self._intact.registered, self._registered, self._losses)
            try:
                await self._io_thread.run(write)
            except StorageError as error:
                _log.warning("not noted as intact, tried again: error=%s", error)
                retry = asyncio.get_running_loop().call_later
                retry(CLUSTER_RETRY_MS / 1000, self._something.set)

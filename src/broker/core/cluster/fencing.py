"""Whether another broker's process has died, before its lease ends. It says what to do next.

The host of a process that has died closes its connections and refuses others, at once; its lease
lasts for seconds. A broker keeps a connection to the next few brokers in the circle of all ids.

    state      event                                      next       action
    UNKNOWN    connected                                  CONNECTED  Wait
    UNKNOWN    refused, or failed in any other way        UNKNOWN    Connect, a second later
    CONNECTED  the connection has ended, or is doubted    PROBED     Connect
    PROBED     connected                                  CONNECTED  Wait
    PROBED     refused, not for the last time             PROBED     Connect, some ms later
    PROBED     refused for the last time in a row         DEAD       Fence
    PROBED     failed in any other way                    PROBED     Connect, a second later
    DEAD       the registration could not be deleted      PROBED     Connect, somewhat later

Only refusals count, and only of an address at which this registration of the broker has accepted a
connection from here: a silent host, a paused process and an address that was never reachable prove
nothing, and the lease decides. A broker that only looks dead, because its host refuses connections
for another reason, is fenced once: it registers again, and its next registration is UNKNOWN.

A registration is deleted only while it is of that incarnation, and only by a broker that is
registered itself. The office of a controller that has died becomes vacant with it. Deleting it is
safe at any time: what others serve afterwards has a higher leader epoch, and an acknowledgement of
all replicas needs members of the ISR, of which the next leader is one.

Brokers without partitions that have several replicas are left to their leases: nobody could lead
their partitions. So are draining ones: they are about to leave.
"""

from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import Transaction
from broker.model.limits import (
    CLUSTER_RETRY_MS,
    PROBE_AGAIN_MS,
    PROBE_GAP_MS,
    PROBE_REFUSALS,
    PROBED_BROKERS_MAX,
)
from broker.storage.metadata import CreatedAt, Delete, Guard, Operation


class _State(Enum):
    UNKNOWN = auto()
    CONNECTED = auto()
    PROBED = auto()
    DEAD = auto()


class Connect(NamedTuple):
    """Connect to the broker; then call `connected`, `refused` or `failed`."""


class Fence(NamedTuple):
    """Delete the broker's registration; call `not_fenced` if that was not possible."""


class Wait(NamedTuple):
    """Do nothing until another call, or until a time of the monotonic clock in milliseconds."""

    until_ms: int | None


Action: TypeAlias = Connect | Fence | Wait


class Watch:
    """What is known of the process of one registration of a broker."""

    __slots__ = ("_doubted_ms", "_due_ms", "_pause_ms", "_refusals", "_state")

    def __init__(self, now_ms: int) -> None:
        """Begin without a connection."""
        self._state = _State.UNKNOWN
        self._due_ms = now_ms  # when to connect next
        self._doubted_ms = now_ms - PROBE_AGAIN_MS  # when a connection ended last
        self._pause_ms = 0  # from then on until the next one
        self._refusals = 0  # in a row

    def action(self, now_ms: int) -> Action:
        """Return what to do next; the same until another call changes it, or its time comes."""
        if self._state is _State.CONNECTED:
            return Wait(None)
        if now_ms < self._due_ms:
            return Wait(self._due_ms)
        return Fence() if self._state is _State.DEAD else Connect()

    def connected(self) -> None:
        """Note that the broker has accepted a connection, which is kept."""
        self._state = _State.CONNECTED

    def refused(self, now_ms: int) -> None:
        """Note that its host has refused a connection."""
        if self._state is not _State.PROBED:
            self._due_ms = now_ms + PROBE_AGAIN_MS
            return
        self._refusals += 1
        if self._refusals < PROBE_REFUSALS:
            self._due_ms = now_ms + PROBE_GAP_MS
        else:
            self._state = _State.DEAD

    def failed(self, now_ms: int) -> None:
        """Note that there was no connection in time, or an error other than a refusal."""
        self._refusals = 0
        self._due_ms = now_ms + PROBE_AGAIN_MS

    def doubted(self, now_ms: int) -> None:
        """Note that the connection has ended, or that others to this broker have failed."""
        if self._state is _State.CONNECTED:
            self._state = _State.PROBED
            self._refusals = 0
            # A broker that closes each connection at once is asked after longer and longer pauses.
            # The first are short: a process that dies may accept one between its last closes.
            is_again = now_ms < self._doubted_ms + self._pause_ms + PROBE_AGAIN_MS
            doubled = max(2 * self._pause_ms, PROBE_GAP_MS)
            self._pause_ms = min(doubled, PROBE_AGAIN_MS) if is_again else 0
            self._doubted_ms = now_ms
            self._due_ms = now_ms + self._pause_ms

    def not_fenced(self, now_ms: int) -> None:
        """Note that the registration was not deleted: the image is old, or the store has failed."""
        self._state = _State.PROBED
        self._refusals = 0
        self._due_ms = now_ms + CLUSTER_RETRY_MS


def watched(image: ClusterImage, broker_id: int) -> list[int]:
    """Return which registered brokers this one watches: the next ones in the circle of ids.

    Each is watched by as many others, so that all of them notice the death of one.
    """
    brokers = sorted(each for each in image.brokers if _can_be_fenced(image, each))
    after = [each for each in brokers if each > broker_id]
    before = [each for each in brokers if each < broker_id]
    return (after + before)[:PROBED_BROKERS_MAX]


def fence(
    image: ClusterImage, fenced_by: tuple[int, int], broker_id: int, broker_epoch: int
) -> Transaction | None:
    """Return the transaction that deletes a registration; None: it is another one by now.

    Args:
        image: the brokers.
        fenced_by: id and epoch of the broker that makes it.
        broker_id: of the broker whose process has died.
        broker_epoch: the registration that was watched.
    """
    if not image.is_registered(*fenced_by) or not image.is_registered(broker_id, broker_epoch):
        return None
    if not _can_be_fenced(image, broker_id):
        return None
    key = records.broker_key(broker_id)
    guards: list[Guard] = [
        CreatedAt(records.broker_key(fenced_by[0]), fenced_by[1]),
        CreatedAt(key, broker_epoch),
    ]
    operations: list[Operation] = [Delete(key)]
    if image.controller is not None and image.is_controller(broker_id, broker_epoch):
        guards.append(CreatedAt(records.CONTROLLER, image.controller.epoch))
        operations.append(Delete(records.CONTROLLER))
    return Transaction(guards, operations)


def _can_be_fenced(image: ClusterImage, broker_id: int) -> bool:
    has_copies_elsewhere = broker_id in image.counts.replicated
    return has_copies_elsewhere and not image.brokers[broker_id].is_draining

"""Changes of partitions that an operator asks for: elections and reassignments.

    handler ── items ──> decided from the image ── guarded transactions ──> store ──> image

Any broker makes them, whichever is the controller. Each partition is decided and answered by
itself; those of a request share transactions. A transaction that is refused, because something has
changed meanwhile, is decided again, in smaller ones.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.core.cluster import election, eligibility, reassignment, records, unclean
from broker.core.cluster.balance import preferred_leader
from broker.core.cluster.eligibility import Known
from broker.core.cluster.records import NO_LEADER, PartitionState, Transaction
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.core.cluster.writes import Item
from broker.core.configs.records import ChangedMeanwhile
from broker.core.metadata import Metadata, change
from broker.core.replica_ends import End, ReplicaEnds, in_order
from broker.core.scheduling.steps import in_steps, next_step
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import (
    CHANGE_ATTEMPTS,
    CLUSTER_CHANGES_PER_TRANSACTION,
    METADATA_OPS_PER_TRANSACTION_MAX,
    PARTITIONS_ANSWERED_PER_STEP,
)
from broker.storage.metadata import CreatedAt, Guard, Operation

_GUARDS_MAX = METADATA_OPS_PER_TRANSACTION_MAX - 1  # and one that this broker is registered
_LOOK_SECONDS = 0.02  # between two looks whether leaders have changed

# What is changed of a partition; None: nothing, and that is no error.
_Decide = Callable[[Item], Transaction | None]


class PartitionChanges:
    """Makes the changes for the requests of one broker of a cluster."""

    def __init__(
        self,
        known: Metadata,
        broker_id: int,
        settings: TopicSettings,
        ends: ReplicaEnds | None = None,
        *,
        is_shared: bool,
    ) -> None:
        """Keep this broker's id and what it knows.

        Args:
            known: the metadata.
            broker_id: of this broker, which has to be registered for any change.
            settings: of topics.
            ends: of replicas, for unclean elections; None: they are not asked for.
            is_shared: whether all brokers share one data directory.
        """
        self._known = known
        self._broker_id = broker_id
        self._settings = settings
        self._ends = ends
        self._is_shared = is_shared

    # ---- elections
    # ---------------------------------------------------------------------------------------------

    def has_leader(self, item: Item) -> bool:
        """Return whether a partition has a live leader, by the image."""
        found = eligibility.known(self._known.image, *item)
        return found is not None and election.has_leader(found)

    def is_led_by_preferred(self, item: Item) -> bool:
        """Return whether the preferred leader of a partition leads it, by the image."""
        found = eligibility.known(self._known.image, *item)
        return found is None or (
            election.has_leader(found) and found.state.leader == self._preferred(item, found)
        )

    async def prefer_leaders(
        self, items: Sequence[Item], seconds: float
    ) -> dict[Item, RequestError]:
        """Let leaders hand over to the preferred ones; return the errors of those that cannot.

        Leaders stop before others begin: this waits for the latter, for `seconds` at most.
        """
        errors = await self._change(items, self._preferring)
        changing = [each for each in items if each not in errors]
        changing = await self._until(changing, self.is_led_by_preferred, seconds)
        text = "the present leader has not stopped yet"
        late = RequestError(ErrorCode.REQUEST_TIMED_OUT, text)
        return {**errors, **dict.fromkeys(changing, late)}

    async def move_leader(self, item: Item, broker_id: int, seconds: float) -> None:
        """Let the leader hand over to another member of the ISR; RequestError if that cannot be."""

        def decide(item: Item) -> Transaction | None:
            found = self._found(item)
            return self._handing_over(item, found, broker_id)

        def is_led(item: Item) -> bool:
            found = eligibility.known(self._known.image, *item)
            return found is None or (election.has_leader(found) and found.state.leader == broker_id)

        errors = await self._change((item,), decide)
        if item in errors:
            raise errors[item]
        if await self._until((item,), is_led, seconds):
            text = "the present leader has not stopped yet"
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, text)

    async def _until(
        self, items: Sequence[Item], condition: Callable[[Item], bool], seconds: float
    ) -> list[Item]:
        """Wait until a condition holds for all items; return those for which it still does not."""
        deadline = asyncio.get_running_loop().time() + seconds
        while waiting := [
            each
            async for each in in_steps(items, PARTITIONS_ANSWERED_PER_STEP)
            if not condition(each)
        ]:
            if asyncio.get_running_loop().time() >= deadline:
                break
            items = waiting
            await asyncio.sleep(_LOOK_SECONDS)
        return waiting

    async def elect_unclean(self, items: Sequence[Item]) -> dict[Item, RequestError]:
        """Elect the live replica with the most records where no member of the ISR lives.

        Return errors.
        """
        leaderless = [
            item
            async for item in in_steps(items, PARTITIONS_ANSWERED_PER_STEP)
            if not self.has_leader(item)
        ]
        ends = {} if self._ends is None else await self._ends.of(leaderless)
        lossy: dict[Item, tuple[PartitionState, PartitionState]] = {}

        def decide(item: Item) -> Transaction | None:
            lossy.pop(item, None)
            found = self._found(item)
            changed = self._unclean(found, item, ends.get(item, {}))
            if election.is_unclean(found, changed.leader):
                lossy[item] = found.state, changed
            return self._transaction(item, found, changed)

        errors = await self._change(items, decide)
        for item, (old, new) in lossy.items():
            if item not in errors:
                shown = {each: tuple(end) for each, end in ends.get(item, {}).items()}
                unclean.warn(self._known.image, item, old, new, shown)
        return errors

    def _preferring(self, item: Item) -> Transaction | None:
        found = self._found(item)
        preferred = self._preferred(item, found)
        if not election.has_leader(found) or preferred == NO_LEADER:
            raise RequestError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
        if found.state.leader == preferred:
            raise RequestError(ErrorCode.ELECTION_NOT_NEEDED)
        return self._handing_over(item, found, preferred)

    def _handing_over(self, item: Item, found: Known, broker_id: int) -> Transaction | None:
        """Return the transaction that names a successor; None: it leads, or is that already."""
        is_led = election.has_leader(found) and found.state.leader == broker_id
        if is_led or found.state.successor == broker_id:
            return None
        changed = election.prefer(found, broker_id, is_shared=self._is_shared)
        if changed is None:
            text = f"broker {broker_id} does not run, drains, or is not in the ISR"
            raise RequestError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
        return self._transaction(item, found, changed)

    def _unclean(self, found: Known, item: Item, ends: Mapping[int, End]) -> PartitionState:
        if election.has_leader(found):
            raise RequestError(ErrorCode.ELECTION_NOT_NEEDED)
        if self._is_shared:  # the controller elects whoever runs
            raise RequestError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
        settings = ReplicaSettings(self._settings.topic(item[0]).min_isr, is_unclean_allowed=True)
        most_first = in_order(found.state.replicas, ends)
        changed = election.next_state(found, settings, most_first=most_first)
        if changed is None or changed.leader == NO_LEADER:
            text = "no replica runs"
            raise RequestError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)
        return changed

    def _preferred(self, item: Item, found: Known) -> int:
        return preferred_leader(self._known.image, item, found.state, is_shared=self._is_shared)

    def _found(self, item: Item) -> Known:
        found = eligibility.known(self._known.image, *item)
        if found is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def _transaction(self, item: Item, found: Known, changed: PartitionState) -> Transaction:
        guards, put = eligibility.change(self._known.image, item, found, changed)
        return Transaction(guards, (put,))

    # ---- reassignments
    # ---------------------------------------------------------------------------------------------

    async def reassign(
        self, targets: Mapping[Item, Sequence[int] | None], *, may_change_factor: bool = True
    ) -> dict[Item, RequestError]:
        """Begin or, with None, cancel reassignments; return errors.

        Args:
            targets: the replicas that partitions shall have.
            may_change_factor: whether a target may have more or fewer of them than now.
        """

        def decide(item: Item) -> Transaction | None:
            target = targets[item]
            if target is None:
                return reassignment.cancel(self._known.image, *item)
            state = self._found(item).state
            if self._is_shared:
                _check_shared(state, target)
                return None
            kept = len(state.replicas) - len(state.adding)
            if not may_change_factor and len(target) != kept:
                text = f"a partition with {kept} replicas was to have {len(target)}"
                raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
            if tuple(target) == state.replicas and not state.adding and not state.removing:
                return None
            return reassignment.begin(self._known.image, *item, target)

        return await self._change(targets, decide)

    # ---- writing
    # ---------------------------------------------------------------------------------------------

    async def _change(self, items: Iterable[Item], decide: _Decide) -> dict[Item, RequestError]:
        """Change partitions, each decided when its transaction is made; return errors."""
        errors: dict[Item, RequestError] = {}
        waiting = deque(items)
        size = CLUSTER_CHANGES_PER_TRANSACTION
        for _ in range(CHANGE_ATTEMPTS):
            refused: list[Item] = []
            while waiting:
                part = await self._decided(waiting, size, decide, errors)
                if part and not await self._write(part, errors):
                    refused += part
            if not refused:
                return errors
            waiting.extend(refused)
            size = max(size // 8, 1)  # one partition that changes often must not fail others
        return {**errors, **dict.fromkeys(waiting, ChangedMeanwhile())}

    async def _decided(
        self,
        waiting: deque[Item],
        size: int,
        decide: _Decide,
        errors: dict[Item, RequestError],
    ) -> dict[Item, Transaction]:
        """Take as many items as fit in one transaction, and decide them."""
        part: dict[Item, Transaction] = {}
        guards: set[Guard] = set()
        looks = 0
        while waiting:
            item = waiting[0]
            try:
                decided = decide(item)
            except RequestError as error:
                errors[item] = error
                decided = None
            if decided is not None:
                together = guards.union(decided.guards)
                if part and (len(together) > _GUARDS_MAX or len(part) >= size):
                    break
                guards = together
                part[item] = decided
            waiting.popleft()
            looks += 1
            if looks % PARTITIONS_ANSWERED_PER_STEP == 0:
                await next_step()
        return part

    async def _write(
        self, part: Mapping[Item, Transaction], errors: dict[Item, RequestError]
    ) -> bool:
        """Return whether the store has decided on a transaction; False: a guard did not hold."""
        own = self._known.image.brokers.get(self._broker_id)
        if own is None:
            text = "this broker is not registered in the cluster now"
            errors.update(dict.fromkeys(part, RequestError(ErrorCode.REQUEST_TIMED_OUT, text)))
            return True
        guards: dict[Guard, None] = {
            CreatedAt(records.broker_key(self._broker_id), own.epoch): None
        }
        operations: list[Operation] = []
        for each in part.values():
            guards.update(dict.fromkeys(each.guards))
            operations += each.operations
        try:
            return await change(self._known, list(guards), operations) is not None
        except RequestError as error:
            errors.update(dict.fromkeys(part, error))
            return True


def _check_shared(state: PartitionState, target: Sequence[int]) -> None:
    if tuple(target) != state.replicas:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the replicas must be {list(state.replicas)}, as now: the brokers share one data"
            " directory",
        )

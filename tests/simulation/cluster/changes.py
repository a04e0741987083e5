"""What one process is asked to change by an operator, and what it asks before unclean elections.

The changes are the product's (`PartitionChanges`), which here waits in virtual time: for the
store, and for brokers that are asked how much they have.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import Transaction
from broker.core.cluster.topic_settings import TopicSettings
from broker.core.cluster.writes import Item
from broker.core.partition_changes import PartitionChanges
from broker.core.replica_ends import End, ReplicaEnds
from broker.model.errors import StorageError
from broker.storage.metadata import Guard, Operation
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.store import Failure, Outcome, SimulatedStore

if TYPE_CHECKING:
    from broker.core.metadata import Metadata
    from tests.simulation.virtual_time import Answer

SILENT_MS = 2_000  # after which a broker is not waited for
REFUSED_MS = 20  # until the image has what a change was refused for

EndsOf: TypeAlias = dict[Item, End]
Ask: TypeAlias = Callable[[int, Sequence[Item], Callable[[EndsOf], None]], None]


class Ends:
    """Asks all registered replicas of partitions at once."""

    def __init__(self, process: Process, image: ClusterImage, ask: Ask) -> None:
        """Keep what it needs; `ask` sends a question to a broker, and calls back with its answer.

        Or it never does so.
        """
        self._process = process
        self._image = image
        self._ask = ask

    async def of(self, items: Sequence[Item]) -> dict[Item, dict[int, End]]:
        """Return what those say that answer in time."""
        asked: dict[int, list[Item]] = {}
        for item in items:
            state = self._image.state(*item)
            for each in () if state is None else state.replicas:
                if each in self._image.brokers:
                    asked.setdefault(each, []).append(item)
        found: dict[Item, dict[int, End]] = {item: {} for item in items}
        if not asked:
            return found
        waiting = set(asked)
        everybody: Answer[None] = self._process.time.answer()

        def told(broker_id: int, ends: EndsOf) -> None:
            if everybody.done():
                return
            waiting.discard(broker_id)
            for item, end in ends.items():
                found[item][broker_id] = end
            if not waiting:
                everybody.give(None)

        for each, of_it in asked.items():
            self._ask(each, of_it, partial(told, each))
        self._process.after(SILENT_MS, lambda: everybody.give(None))
        await everybody
        return found


class _Known:
    """The metadata of one process, for changes."""

    def __init__(self, process: Process, image: ClusterImage, store: SimulatedStore) -> None:
        self.image = image
        self._process = process
        self._store = store

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        """Change the store; StorageError when it fails, or when that is not known."""
        time = self._process.time
        answer: Answer[Outcome] = time.answer()
        transaction = Transaction(list(guards), list(operations))
        self._store.transact(self._process, transaction, answer.give)
        outcome = await answer
        if isinstance(outcome, Failure):
            raise StorageError(outcome.name)
        if outcome is None:
            await time.sleep(REFUSED_MS)
        return outcome


def partition_changes(
    process: Process,
    store: SimulatedStore,
    broker_id: int,
    settings: TopicSettings,
    ends: Ends,
    image: ClusterImage,
) -> PartitionChanges:
    """Return what changes partitions through a process of a broker with its own directory."""
    known = cast("Metadata", _Known(process, image, store))
    return PartitionChanges(known, broker_id, settings, cast("ReplicaEnds", ends), is_shared=False)

"""Python's cyclic garbage collector, so that no collection stops the event loop for long.

    objects made   -> generation 0, collected after GC_YOUNG_OBJECTS of them
    its survivors  -> generation 1, collected after GC_YOUNG_COLLECTIONS collections of generation 0
    its survivors  -> frozen: no collection visits them again

The collector's default visits every object that lives, each time their number has grown by a
quarter: 5 to 30 ms of the loop while the broker answers long requests, 100 ms with large groups.
Here a collection visits what was made since the last ones, whatever the broker holds.

A frozen object is freed like any other when nothing refers to it. A cycle that comes to be unused
after it is frozen would stay. The broker makes no such cycles
(tests/compatibility/limits/test_garbage.py): what a client leaves behind is freed without the
collector.
"""

import gc

from broker.model.limits import GC_YOUNG_COLLECTIONS, GC_YOUNG_OBJECTS

_NEVER = 1 << 30  # collections of generation 1 between two of generation 2


def bound_collections() -> None:
    """Freeze what exists, and from now on what survives a collection of generation 1."""
    gc.freeze()
    gc.set_threshold(GC_YOUNG_OBJECTS, GC_YOUNG_COLLECTIONS, _NEVER)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, facts: dict[str, int]) -> None:
    if phase == "stop" and facts["generation"] == 1:
        gc.freeze()


class CollectorPause:
    """Holds the collector back from the first coordinator partition that loads to the last.

    Loading makes hundreds of thousands of objects that stay, and no garbage.

    Attributes:
        is_held: whether the collector is held back until `end` is called.
    """

    def __init__(self) -> None:
        """Nothing loads yet."""
        self.is_held = False
        self._is_over = False

    def begin(self) -> None:
        """Hold the collector back for the first load; a load that is repeated changes nothing."""
        if not self._is_over:
            self.is_held = True
            gc.disable()

    def end(self) -> None:
        """Enable the collector once everything is loaded, and freeze what exists."""
        if self.is_held:
            self.is_held = False
            self._is_over = True
            gc.freeze()
            gc.enable()

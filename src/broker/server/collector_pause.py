"""No search for garbage while coordinators load what they kept.

Loading makes hundreds of thousands of objects that stay and no garbage; each time their number has
grown by a quarter the collector would walk all of them, up to 100 ms of one turn of the loop.
"""

import gc


class CollectorPause:
    """Holds the collector back from the first partition that loads to the last.

    Attributes:
        is_held: whether it is to be told of the end.
    """

    def __init__(self) -> None:
        """Nothing loads yet."""
        self.is_held = False
        self._is_over = False

    def begin(self) -> None:
        """A partition begins to load; what is loaded again after a failure is not worth it."""
        if not self._is_over:
            self.is_held = True
            gc.disable()

    def end(self) -> None:
        """Let the collector work again once all is loaded; it leaves alone what exists now."""
        if self.is_held:
            self.is_held = False
            self._is_over = True
            gc.freeze()
            gc.enable()

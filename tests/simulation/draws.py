"""Random numbers of a simulation, which draws some thousands in each history."""

from random import Random


class Draws(Random):
    """What Random draws, without its checks of arguments: they take longer than the draw."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return a number in [0, start), or in [start, stop)."""
        assert step == 1
        if stop is None:
            start, stop = 0, start
        width = stop - start
        if width <= 0:
            raise ValueError(f"no number in [{start}, {stop})")
        bits = width.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= width:
            drawn = self.getrandbits(bits)
        return start + drawn

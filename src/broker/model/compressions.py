"""The table of Kafka's compressions: numbers in a batch's attributes, names, levels (KIP-390).

Settings take ranges and defaults from here, the codec takes the numbers. The formats themselves are
in codec/compression.
"""

from typing import Final, NamedTuple


class Compression(NamedTuple):
    """A compression; `number` is bits 0-2 of a batch's attributes."""

    number: int
    name: str
    level_default: int | None = None  # None: it has no levels
    level_min: int = 0
    level_max: int = 0

    def level(self, wanted: int | None) -> int:
        """Return the level to compress with, the default for None; ValueError when out of range."""
        if wanted is None or wanted == self.level_default:
            return self.level_default or 0
        if self.level_default is None:
            raise ValueError(f"{self.name} has no levels, got {wanted}")
        if not self.level_min <= wanted <= self.level_max:
            raise ValueError(
                f"{self.name} level {wanted}, expected {self.level_min} to {self.level_max}"
                f" or the default {self.level_default}"
            )
        return wanted


NONE: Final = Compression(0, "none")
GZIP: Final = Compression(1, "gzip", -1, 1, 9)  # -1 is the library's own choice
SNAPPY: Final = Compression(2, "snappy")
LZ4: Final = Compression(3, "lz4", 9, 1, 17)
ZSTD: Final = Compression(4, "zstd", 3, -131_072, 22)

COMPRESSIONS: Final = (NONE, GZIP, SNAPPY, LZ4, ZSTD)  # by number
BY_NAME: Final = {compression.name: compression for compression in COMPRESSIONS}

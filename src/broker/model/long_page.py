"""A page that is too long for one step of the loop."""


class LongPage:
    """A page in parts, which all its readers share.

    Attributes:
        parts: of its bytes, each made in one step.
        size: of all of them.
    """

    __slots__ = ("__weakref__", "parts", "size")

    def __init__(self, parts: tuple[bytes, ...]) -> None:
        """Keep the parts."""
        self.parts = parts
        self.size = sum(map(len, parts))

"""Passwords, as values that show themselves to nobody by accident."""

from typing import Final, NoReturn

HIDDEN: Final = "[hidden]"


class Secret:
    """A password: what prints, formats, logs or stores it gets HIDDEN or an error instead."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self._text = text

    def reveal(self) -> str:
        """Return the text, to those that log in with it or compare it."""
        return self._text

    def __repr__(self) -> str:
        """Return what stands for the text in messages; str and format use it, too."""
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        """Compare two values of a setting; a login compares in constant time, elsewhere."""
        if not isinstance(other, Secret):
            return NotImplemented
        return self._text == other._text

    def __hash__(self) -> int:
        """Return a number that is different in each process."""
        return hash((HIDDEN, self._text))

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied into a file."""
        raise TypeError("a secret leaves its process only where a protocol needs it")

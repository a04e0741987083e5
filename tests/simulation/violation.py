"""What a simulation is ended by."""


class Violation(AssertionError):  # noqa: N818 (it is what the word says)
    """Something that must never be."""

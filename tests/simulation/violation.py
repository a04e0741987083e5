"""The exception that ends a simulation."""


class Violation(AssertionError):  # noqa: N818 (it is what the word says)
    """A broken invariant."""

"""Polylog: one durable log with five documented wire protocols on one port."""


def __getattr__(name: str) -> str:
    """Return `__version__`, which takes 20 ms to find: a start avoids it."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415 - see above

    return version("polylog-broker")

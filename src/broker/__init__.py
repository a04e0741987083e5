"""Polylog: one durable log with five documented wire protocols on one port.

Public packages, whose interfaces follow the version: `broker.codec`, `broker.segments`,
`broker.pipeline` and `broker.testing`. Everything else is internal, `broker.client` included.
"""


def __getattr__(name: str) -> str:
    """Look up `__version__` when it is asked for: importlib.metadata takes a start 20 ms."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415 - see above

    found = version("polylog-broker")
    globals()["__version__"] = found
    return found

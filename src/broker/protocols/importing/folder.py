"""The folder that is imported."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.model.errors import ImportFailed


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Report that a folder cannot be read. Raises ImportFailed."""
    try:
        yield
    except OSError as error:
        raise ImportFailed(
            f"{folder} cannot be read: {error}. Make it readable and import again"
        ) from error

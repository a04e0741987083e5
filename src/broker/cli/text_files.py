"""Files that a command line names: all of their text, with a limit."""

from pathlib import Path
from typing import Final

from broker.model.errors import ConfigError

FILE_BYTES_MAX: Final = 64 << 20


def read_text(file: Path) -> str:
    """Return the text of a file; raise ConfigError if it cannot be read, or is too long."""
    try:
        with file.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{file} has more than {FILE_BYTES_MAX} bytes: divide it")
    return text

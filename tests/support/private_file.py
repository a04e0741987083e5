"""Files of keys and passwords, as a broker takes them: nobody else may read them."""

from pathlib import Path

OWNER_ONLY = 0o600


def write_private(path: Path, content: bytes) -> Path:
    """Write a file that only its owner can read, and return its path."""
    path.touch(OWNER_ONLY)
    path.chmod(OWNER_ONLY)
    path.write_bytes(content)
    return path

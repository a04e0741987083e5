"""A manifest of digests, a line per closed segment, which `xxhsum -c` accepts.

XXH3_<16 hexadecimal digits>  <path of the log, relative to the folder that was checked>
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker._native.kernel import file_ops
from broker.model.errors import ConfigError
from broker.model.limits import MANIFEST_BYTES_MAX

_MARK: Final = "XXH3_"
_DIGITS: Final = 16
_GAP: Final = "  "


def write(file: Path, digests: Mapping[str, int]) -> None:
    """Write the digests of logs by their paths. Raises StorageError."""
    lines = [f"{_MARK}{xxh3:016x}{_GAP}{name}\n" for name, xxh3 in digests.items()]
    file_ops.write_file_atomic(file, "".join(lines).encode())


def read(file: Path) -> dict[str, int]:
    """Return the digests by path; ConfigError when the file is missing or no manifest."""
    try:
        if file_ops.size(file) > MANIFEST_BYTES_MAX:
            raise ConfigError(f"{file}: more than {MANIFEST_BYTES_MAX} bytes")
        content = file_ops.read_file(file).decode()
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not a manifest: {error}") from None
    found = {}
    for number, line in enumerate(content.splitlines(), 1):
        digest, gap, name = line.partition(_GAP)
        digits = digest.removeprefix(_MARK)
        if not (digest.startswith(_MARK) and gap and name and len(digits) == _DIGITS):
            raise ConfigError(f"{file} line {number}: expected {_MARK}<16 digits>{_GAP}<path>")
        try:
            found[name] = int(digits, 16)
        except ValueError:
            raise ConfigError(f"{file} line {number}: {digits!r} is not a digest") from None
    return found

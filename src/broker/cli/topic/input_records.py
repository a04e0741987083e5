"""The pieces of an input between delimiters, as soon as they are there."""

import select
import stat
from collections.abc import Iterator
from os import fstat
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from broker.model.errors import ConfigError
from broker.model.limits import MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    from io import BufferedReader

_READ_BYTES: Final = 1 << 18
_IDLE_SECONDS: Final = 0.05
_PIECE_BYTES_MAX: Final = 16 * MESSAGE_BYTES_MAX  # a broker may take more than by default


def pieces(source: BinaryIO, delimiter: bytes) -> Iterator[bytes | None]:
    """Yield the pieces of an input; None when it has no more for the moment.

    Raises:
        ConfigError: a piece is larger than any record.
    """
    if not delimiter:
        raise ConfigError("the delimiter is empty")
    waits = not stat.S_ISREG(fstat(source.fileno()).st_mode)
    read1 = cast("BufferedReader", source).read1  # files and the standard input are buffered
    rest = b""
    is_idle = True
    while True:
        if waits and not is_idle and not select.select([source], [], [], _IDLE_SECONDS)[0]:
            is_idle = True
            yield None
        found = read1(_READ_BYTES)
        is_idle = False
        if not found:
            break
        *whole, rest = (rest + found).split(delimiter)
        yield from whole
        if len(rest) > _PIECE_BYTES_MAX:
            raise ConfigError(f"a record has more than {_PIECE_BYTES_MAX} bytes: check -D")
    if rest:
        yield rest

"""Common parts of the formats: errors of libraries, and skippable frames of lz4 and zstd."""

from struct import Struct

from broker.model.errors import Corrupt, Truncated

_MAGIC_SKIPPED, _MAGIC_SKIPPED_MASK = 0x184D2A50, 0xFFFFFFF0
_SIZE = Struct("<I")


def input_error(error: BaseException) -> str:
    """Return the text of a library's error about its input; raise all other errors again.

    A panic of a Rust library derives from BaseException. It is an error about the input, too.
    """
    about_input = isinstance(error, Exception) or type(error).__name__ == "PanicException"
    if not about_input or isinstance(error, MemoryError):
        raise error
    return str(error)


def skipped_end(codec: str, data: memoryview, start: int, magic: int) -> int:
    """Return the end of the skippable frame at a position that begins with `magic`."""
    if magic & _MAGIC_SKIPPED_MASK != _MAGIC_SKIPPED:
        raise Corrupt(f"{codec}: a frame that begins with {magic:#x}", start)
    content = start + 2 * _SIZE.size
    if content > len(data):
        raise Truncated(f"{codec}: a frame header that is cut short", start)
    end: int = content + _SIZE.unpack_from(data, start + _SIZE.size)[0]
    if end > len(data):
        raise Truncated(f"{codec}: a skippable frame that is cut short", start)
    return end

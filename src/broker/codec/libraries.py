"""What the compressions' libraries say, in this package's errors."""

from broker.model.errors import Unsupported


def verdict(error: BaseException) -> str:
    """Return what a library said about the bytes; anything that is not about them goes on.

    A panic of a Rust library derives from BaseException: it, too, is a verdict on the bytes.
    """
    about_bytes = isinstance(error, Exception) or type(error).__name__ == "PanicException"
    if not about_bytes or isinstance(error, MemoryError):
        raise error
    return str(error)


def missing(codec: str, package: str) -> Unsupported:
    """Return the error for a codec whose package is not installed."""
    return Unsupported(f"{codec} needs the package {package}, which is not installed")

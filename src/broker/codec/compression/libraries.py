"""What the compressions' libraries say, in this package's errors."""


def verdict(error: BaseException) -> str:
    """Return what a library said about the bytes; anything that is not about them goes on.

    A panic of a Rust library derives from BaseException: it, too, is a verdict on the bytes.
    """
    about_bytes = isinstance(error, Exception) or type(error).__name__ == "PanicException"
    if not about_bytes or isinstance(error, MemoryError):
        raise error
    return str(error)

"""Errors of the compression libraries."""


def input_error(error: BaseException) -> str:
    """Return the text of a library's error about its input; raise all other errors again.

    A panic of a Rust library derives from BaseException. It is an error about the input, too.
    """
    about_input = isinstance(error, Exception) or type(error).__name__ == "PanicException"
    if not about_input or isinstance(error, MemoryError):
        raise error
    return str(error)

"""What of a library's errors is a verdict on the bytes."""

import pytest

from broker.codec.compression.libraries import verdict


class PanicException(BaseException):
    """What a panic of Rust code arrives as."""


def test_an_error_and_a_panic_are_verdicts_on_the_bytes() -> None:
    assert verdict(ValueError("wrong")) == "wrong"
    assert verdict(PanicException("index out of bounds")) == "index out of bounds"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), MemoryError()])
def test_what_is_not_about_the_bytes_goes_on(error: BaseException) -> None:
    with pytest.raises(type(error)):
        verdict(error)

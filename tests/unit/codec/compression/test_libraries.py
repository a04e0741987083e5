"""Errors of the compression libraries."""

import pytest

from broker.codec.compression.libraries import input_error


class PanicException(BaseException):
    """The exception that a panic of Rust code becomes."""


def test_an_error_and_a_panic_are_errors_of_the_input() -> None:
    assert input_error(ValueError("wrong")) == "wrong"
    assert input_error(PanicException("index out of bounds")) == "index out of bounds"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), MemoryError()])
def test_exceptions_unrelated_to_the_data_propagate(error: BaseException) -> None:
    with pytest.raises(type(error)):
        input_error(error)

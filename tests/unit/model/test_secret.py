"""A secret shows itself to nobody."""

import copy
import logging
import pickle
import traceback

import pytest

from broker.model.secret import HIDDEN, Secret

CANARY = "canary-5c1f"


def test_no_way_to_print_a_secret_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(CANARY)

    logging.getLogger("any").error("value: %s %r", secret, [secret])

    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r:>20}", "%s" % secret, caplog.text]  # noqa: UP031
    assert not [each for each in shown if CANARY in each]
    assert all(HIDDEN in each for each in shown)


def test_the_error_of_a_call_with_a_secret_does_not_show_it() -> None:
    with pytest.raises(TypeError) as caught:
        int(Secret(CANARY))  # type: ignore[call-overload]

    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("leave", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_is_neither_pickled_nor_copied(leave: object) -> None:
    assert callable(leave)
    with pytest.raises(TypeError, match="a secret leaves its process only"):
        leave(Secret(CANARY))


def test_secrets_are_equal_by_their_text() -> None:
    assert Secret(CANARY) == Secret(CANARY)
    assert hash(Secret(CANARY)) == hash(Secret(CANARY))
    assert Secret(CANARY) != Secret("another")
    assert Secret(CANARY) != CANARY


def test_who_needs_a_secret_asks_for_it() -> None:
    assert Secret(CANARY).reveal() == CANARY

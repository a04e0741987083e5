"""A secret shows itself to nobody."""

import copy
import logging
import pickle
import traceback
from pathlib import Path

import pytest

from broker.model.config import load, value_to_text
from broker.model.errors import ConfigError
from broker.model.limits import STRING_BYTES_MAX
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


def test_a_password_setting_is_read_by_its_name_and_hidden_from_what_reads_all() -> None:
    config = load([f"ssl.key.password={CANARY}"])

    assert config.text("ssl.key.password") == CANARY
    assert config.text_or_none("ssl.key.password") == CANARY
    assert config.text_or_none("ssl.keystore.password") is None
    shown = [repr(config.get(name)) for name in config.names]
    shown += [value_to_text(config.get(name)) or "" for name in config.names]
    shown += [repr(config.describe()), repr(config.of_listener(config.listeners[0]))]
    assert not [each for each in shown if CANARY in each]


def test_reading_a_password_as_another_type_does_not_show_it() -> None:
    config = load([f"ssl.key.password={CANARY}"])

    for read in (config.integer, config.flag, config.number, config.words):
        with pytest.raises(TypeError) as caught:
            read("ssl.key.password")
        assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "override",
    [
        f"ssl.key.password {CANARY}",
        f"ssl.key.password:{CANARY}",
        f"ssl.key.pasword={CANARY}",
        f"listener.name.absent.ssl.key.password={CANARY}",
        f"ssl.key.password={CANARY}{'x' * STRING_BYTES_MAX}",
    ],
)
def test_an_error_about_a_password_setting_does_not_show_it(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load([override])

    assert CANARY not in str(caught.value)
    assert "ssl.key.pas" in str(caught.value)


def test_a_file_that_is_not_toml_does_not_show_what_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(f'"ssl.key.password" = "{CANARY}\n')

    with pytest.raises(ConfigError, match="is not TOML") as caught:
        load([], {}, file)

    assert CANARY not in str(caught.value)


def test_a_password_is_not_altered_while_the_broker_runs() -> None:
    config = load(["listeners=SSL://127.0.0.1:0"])
    own = {"listener.name.ssl.ssl.key.password": CANARY}

    with pytest.raises(ConfigError, match="not stored with the metadata") as caught:
        config.altered({}, own)

    assert CANARY not in str(caught.value)

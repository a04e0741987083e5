"""Profiles, and which of option, environment and profile decides."""

import json
from pathlib import Path

import pytest

from broker.cli import main
from broker.cli.profiles import connection_of, profiles_file
from broker.model.errors import ConfigError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without profiles."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BROKER_BOOTSTRAP_SERVER", raising=False)


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Return what was printed."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_without_profiles_a_broker_is_at_localhost() -> None:
    assert connection_of(None, None, None, 1).bootstrap_server == "localhost:9092"


def test_profiles_are_created_used_listed_shown_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("")

    assert main(["profile", "create", "one", "a:1"]) == 0
    assert main(["profile", "create", "t wo", "b:2,c:3", "--settings", str(settings)]) == 0
    assert connection_of(None, None, None, 1).bootstrap_server == "a:1"
    assert main(["profile", "use", "t wo"]) == 0
    capsys.readouterr()
    assert main(["profile", "list"]) == 0
    listed = rows(capsys)
    assert main(["profile", "show"]) == 0
    shown = rows(capsys)

    assert [(each["profile"], each["is_current"]) for each in listed] == [
        ("one", False),
        ("t wo", True),
    ]
    assert shown == listed[1:]
    assert connection_of(None, None, None, 1).command_config == settings
    assert profiles_file().stat().st_mode & 0o777 == 0o600

    assert main(["profile", "delete", "t wo"]) == 0
    undo = capsys.readouterr().err
    assert undo == f"undo: broker profile create 't wo' b:2,c:3 --settings {settings} --use\n"
    assert main(["profile", "show", "t wo"]) == 3
    assert main(["profile", "show"]) == 3
    assert connection_of(None, None, None, 1).bootstrap_server == "localhost:9092"


def test_an_option_precedes_the_profile_and_keeps_nothing_of_the_current_one() -> None:
    main(["profile", "create", "one", "a:1"])

    assert connection_of("b:2", None, None, 1).bootstrap_server == "b:2"
    assert connection_of("b:2", None, "one", 1).bootstrap_server == "b:2"
    assert connection_of(None, Path("f"), "one", 1).command_config == Path("f")


def test_a_profile_that_does_not_exist_is_an_error_that_says_where_to_look() -> None:
    with pytest.raises(ConfigError, match="broker profile list"):
        connection_of(None, None, "nope", 1)


def test_a_damaged_file_is_named() -> None:
    profiles_file().parent.mkdir(parents=True)
    profiles_file().write_text("[profiles.x]\n")

    with pytest.raises(ConfigError, match=r"profiles\.toml"):
        connection_of(None, None, None, 1)


def test_a_dry_run_writes_nothing() -> None:
    assert main(["profile", "create", "one", "a:1", "--dry-run"]) == 0

    assert not profiles_file().exists()


@pytest.mark.parametrize("name", ["\U0001f600", 'quo"te', "back\\slash", "\x7f\t\x01"])
def test_a_profile_may_have_any_name(name: str) -> None:
    assert main(["profile", "create", name, "a:1"]) == 0

    assert connection_of(None, None, name, 1).bootstrap_server == "a:1"


@pytest.mark.parametrize(
    "text",
    [
        "[profiles.x]\nbootstrap_server = 9092\n",
        "current = ['x']\n",
        "[profiles.x]\nbootstrap_server = 'a:1'\ncommand_config = true\n",
    ],
)
def test_values_that_are_no_texts_are_a_damage_of_the_file(text: str) -> None:
    profiles_file().parent.mkdir(parents=True)
    profiles_file().write_text(text)

    with pytest.raises(ConfigError, match=r"profiles\.toml: .*expected a text"):
        connection_of(None, None, None, 1)


def test_a_profile_that_is_an_option_precedes_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["profile", "create", "staging", "127.0.0.1:1"])
    monkeypatch.setenv("BROKER_BOOTSTRAP_SERVER", "127.0.0.1:2")

    main(["topic", "list", "--profile", "staging", "--timeout", "1"])
    by_option = capsys.readouterr().err
    main(["topic", "list", "--timeout", "1"])

    assert "127.0.0.1:1 " in by_option
    assert "127.0.0.1:2 " in capsys.readouterr().err

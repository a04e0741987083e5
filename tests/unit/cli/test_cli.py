"""The command line: options, exit codes, messages, and what a start may import."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker.cli import main, start
from broker.cli.exit_codes import Exit
from broker.model.config import Config
from broker.model.errors import ConfigError, DataDirError, PolylogError, StorageError
from broker.model.protocol_names import PROTOCOL_NAMES


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations with which a start would have run."""
    configs: list[Config] = []

    def run(config: Config) -> int:
        configs.append(config)
        return 0

    monkeypatch.setattr(start, "run", run)
    return configs


def test_start_without_options_uses_the_defaults(started: list[Config]) -> None:
    assert main(["start"]) == 0

    (config,) = started
    assert config.data_dir == Path.cwd() / "data"
    assert [str(address) for address in config.listeners] == ["localhost:9092"]


def test_options_of_start_become_settings(started: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("node.id = 7\nnum.partitions = 2\n")

    options = ["--config", str(file), "--data-dir", str(tmp_path), "--set", "num.partitions=3"]
    code = main(["start", *options, "--listen", "127.0.0.1:0", "--listen", "[::1]:0"])

    (config,) = started
    assert code == 0
    assert config.integer("node.id") == 7
    assert config.integer("num.partitions") == 3
    assert config.data_dir == tmp_path
    assert [str(address) for address in config.listeners] == ["127.0.0.1:0", "[::1]:0"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError, 2), (DataDirError, 73), (StorageError, 74), (PolylogError, 1)],
)
def test_each_kind_of_failure_has_its_exit_code_and_one_line(
    error: type[PolylogError],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_config: Config) -> int:
        raise error("this went wrong: do that")

    monkeypatch.setattr(start, "run", fail)

    assert main(["start"]) == code
    assert capsys.readouterr().err == "broker: this went wrong: do that\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["start", "--set", "num.partition=3"], "did you mean num.partitions?"),
        (["start", "--set", "num.partitions=0"], "allowed is 1 .. 10000"),
        (["start", "--listen", "0.0.0.0:9092"], "--set polylog.insecure=true"),
        (["start", "--listen", "9092"], "expected HOST:PORT"),
        (["start", "--config", "missing.toml"], "cannot read missing.toml"),
    ],
)
def test_an_invalid_configuration_exits_2_and_names_the_remedy(
    arguments: list[str], message: str, started: list[Config], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    assert message in capsys.readouterr().err
    assert not started


@pytest.mark.parametrize("arguments", [["start", "--frobnicate"], ["start", "extra"]])
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics", "list"], "there is no command 'topics'; did you mean topic? (see `broker --"),
        (["stop"], "there is no command 'stop'"),
        (["--bootstrap-server", "h:1", "topic", "list"], "options follow the command: broker NOUN"),
        (["\udcff\x1b[2J"], "\\x1b[2J"),
        (["topic", "consum"], "there is no verb 'consum'; did you mean consume? It is one of: c"),
    ],
)
def test_a_word_that_is_no_command_is_one_line_that_helps(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == Exit.USAGE

    [line] = capsys.readouterr().err.splitlines()
    assert said in line


INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job in the background
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["broker", "topic", "list", "-b", "127.0.0.1:1"]
from broker.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "code"), [("broker.cli", -2), ("broker.cli.frame", 130), ("broker.client.pool", 130)]
)
def test_ctrl_c_shows_no_trace_whatever_is_imported_just_then(module: str, code: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(module=module)],
        capture_output=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr.strip()) == (code, b"")


def test_a_defect_is_one_line_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError("this\x1b is wrong")

    monkeypatch.setattr("broker.cli.version.versions", fail)

    assert main(["version"]) == Exit.DEFECT
    [line] = capsys.readouterr().err.splitlines()
    assert "ValueError: this\\x1b is wrong at " in line
    assert "test_cli.py:" in line


def test_no_command_shows_the_help_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "start" in capsys.readouterr().err


def test_the_help_of_start_names_the_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["start", "--help"])

    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Every port speaks {', '.join(PROTOCOL_NAMES)}" in shown


def test_check_prints_the_given_settings_and_touches_nothing(
    tmp_path: Path, started: list[Config], capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = tmp_path / "data"

    setting = "log.local.retention.ms=5"
    code = main(["start", "--check", "--data-dir", str(data_dir), "--set", setting])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        f"log.dirs={data_dir}  from command line",
        f"{setting}  from command line  (has no effect in this version)",
        "configuration ok",
    ]
    assert not data_dir.exists()
    assert not started


def test_version_is_that_of_the_distribution(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"1.2.3 of {name}")

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "polylog 1.2.3 of polylog-broker\n"


def test_the_module_runs_the_command() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "broker", "start", "--set", "x=1"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 2
    assert ended.stderr.startswith("broker: command line: unknown setting 'x'")


def test_reading_the_configuration_imports_nothing_slow() -> None:
    program = (
        "import sys\n"
        "from broker.cli import main\n"
        "main(['start', '--check'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    slow = {"typer", "click", "rich", "numpy", "uuid", "ssl", "tomllib", "difflib", "json"}
    assert not slow & set(ended.stderr.split())


def test_a_start_leaves_the_variables_of_clients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROKER_BOOTSTRAP_SERVER", "BROKER_COMMAND_CONFIG", "BROKER_PROFILE"):
        monkeypatch.setenv(name, "anything")

    assert main(["start", "--check"]) == Exit.OK


def test_exit_codes_are_documented_values() -> None:
    assert (Exit.OK, Exit.USAGE, Exit.DATA_DIR, Exit.STORAGE) == (0, 2, 73, 74)


def test_the_help_names_the_nouns(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"    {each} " in shown for each in ("pipeline", "topic"))


@pytest.mark.parametrize(
    "words", [["pipeline"], ["snapshot"], ["pipeline", "nosuch"], ["import", "v2", "."]]
)
def test_a_noun_without_one_of_its_verbs_is_a_usage_error(words: list[str]) -> None:
    assert main(words) == 2

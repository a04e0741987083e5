"""Commands that need no broker: docs, version, the bundle of a stopped broker."""

import json
import shlex
import tarfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import broker
from broker.cli import main
from broker.cli.debug import bundle_verb
from broker.cli.docs import pages
from broker.cli.exit_codes import Exit

ROOT = Path(__file__).parents[3]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command prints; it must succeed."""
    assert main(arguments) == Exit.OK
    return capsys.readouterr().out


def test_every_page_of_the_repository_is_installed() -> None:
    names = {
        str(file.relative_to(ROOT / "docs").with_suffix("")).removesuffix("/README")
        for file in (ROOT / "docs").rglob("*.md")
    }

    assert pages().keys() == names | {"readme", "changelog", "contributing", "security"} - {"docs"}


def test_a_page_is_shown_as_it_is_and_listed_with_its_heading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = [json.loads(each) for each in printed(capsys, "docs").splitlines()]

    shown = printed(capsys, "docs", "docs/security/tls.md")

    assert shown.rstrip() == (ROOT / "docs/security/tls.md").read_text().rstrip()
    assert {each["page"]: each["title"] for each in listed}["durability"] == "Durability"


def test_a_page_that_does_not_exist_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "none"]) == Exit.NOT_FOUND

    assert "`broker docs` lists them" in capsys.readouterr().err


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(printed(capsys, "version", "-o", "json"))

    assert shown["version"] == broker.__version__ == version("polylog-broker")
    assert shown["packages"]["uvloop"] == version("uvloop")
    assert "cpython-3" in shown["build"]


def test_the_package_has_no_other_attributes_than_its_version() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        broker.other  # noqa: B018 - reading it is the test


def bundle(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> dict[str, object]:
    """Return what the command says of the bundle of a stopped broker."""
    options = ["--offline", "--data-dir", str(folder / "data"), "--file", str(folder / "b.tgz")]
    found: dict[str, object] = json.loads(printed(capsys, "debug", "bundle", *options, *more))
    return found


def test_a_bundle_of_a_stopped_broker_lists_its_files_and_the_end_of_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    (tmp_path / "data" / "orders-0" / "0.log").write_bytes(b"records")
    log = tmp_path / "broker.log"
    log.write_bytes(b"old\n" + b"x" * (1 << 20))

    said = bundle(capsys, tmp_path, "--log", str(log))

    assert said["missing"] == {"cluster": "not asked: --offline"}
    with tarfile.open(tmp_path / "b.tgz") as archive:
        parts = {each.name: archive.extractfile(each) for each in archive}
        files, end = parts["polylog-debug/data-dir.txt"], parts["polylog-debug/logs/0-broker.log"]
        assert files is not None
        assert end is not None
        listed = files.read().decode()
        assert listed.splitlines()[-1].split()[0::2] == ["7", "orders-0/0.log"]
        assert "records" not in listed
        assert end.read() == b"x" * (1 << 20)
    assert (tmp_path / "b.tgz").stat().st_mode & 0o777 == 0o600


def test_a_bundle_has_a_limit_and_says_what_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    log = tmp_path / "broker.log"
    log.write_bytes(b"x" * 100_000)
    monkeypatch.setattr(bundle_verb, "BUNDLE_BYTES_MAX", 90_000)

    said = bundle(capsys, tmp_path, "--log", str(log))

    assert isinstance(said["missing"], dict)
    assert said["missing"]["logs/0-broker.log"] == "100000 bytes do not fit"


def test_a_bundle_does_not_replace_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.tgz").write_bytes(b"mine")

    code = main(["debug", "bundle", "--offline", "--file", str(tmp_path / "b.tgz")])

    assert code == Exit.USAGE
    assert "File exists" in capsys.readouterr().err
    assert (tmp_path / "b.tgz").read_bytes() == b"mine"


@pytest.fixture
def undone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Run a command on the data directory of a stopped broker; return the undo that it prints."""

    def run(*words: str) -> str:
        assert main([*words, "--data-dir", str(tmp_path / "da ta")]) == Exit.OK
        return capsys.readouterr().err.strip().removeprefix("undo: broker ")

    return run


ALLOW = ("acl", "allow", "User:a", "--topic", "t", "--only", "produce")


def test_an_undo_is_for_the_same_stopped_broker(
    undone: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.touch(0o600)
    file.write_text("secret")
    create = ("user", "create", "a b", "--password-file", str(file), "--iterations", "4096")
    for words, noun in ((ALLOW, "acl"), (create, "user")):
        undo = shlex.split(undone(*words))

        assert main([*undo, *["--yes"] * (noun == "user")]) == Exit.OK
        capsys.readouterr()
        assert printed(capsys, noun, "list", "--data-dir", str(tmp_path / "da ta")) == ""


def test_an_undo_does_not_have_the_values_of_settings(
    undone: Callable[..., str], tmp_path: Path
) -> None:
    undo = undone(*ALLOW, "--set", "ssl.truststore.password=secret")

    assert shlex.split(undo)[-4:] == [
        *("--data-dir", str(tmp_path / "da ta")),
        *("--set", "ssl.truststore.password=..."),
    ]


def test_entries_that_were_or_were_not_there_before_have_no_undo(
    undone: Callable[..., str],
) -> None:
    """It would take away, or allow, more than the command has changed."""
    assert undone(*ALLOW)
    assert undone(*ALLOW, "--topic", "u") == ""
    assert undone("acl", "remove", *ALLOW[2:], "--topic", "v") == ""
    assert undone("acl", "remove", "User:a", "--topic", "u", "--only", "produce")

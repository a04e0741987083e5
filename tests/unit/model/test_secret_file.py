"""Which files with keys and passwords are read, and what the errors say."""

import os
from pathlib import Path

import pytest

from broker.model import secret_file
from broker.model.errors import ConfigError
from broker.model.secret_file import (
    check_secret_file,
    read_certificate_file,
    read_password_file,
    read_secret_file,
)
from broker.model.security_limits import SECRET_FILE_BYTES_MAX

SETTING = "ssl.keystore.location"
CANARY = b"canary-5c1f"
OTHER_USER = 54321


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Return a file that only its owner can read, in a folder of its own."""
    file = tmp_path / "key.pem"
    file.write_bytes(CANARY)
    file.chmod(0o600)
    return file


def refusal(file: Path) -> str:
    """Return the message of the error that all readers of secrets raise."""
    with pytest.raises(ConfigError) as caught:
        read_secret_file(file, SETTING)
    with pytest.raises(ConfigError) as checked:
        check_secret_file(file, SETTING)
    assert str(checked.value) == str(caught.value)
    assert str(caught.value).startswith(f"{SETTING}={file}: ")
    assert CANARY.decode() not in str(caught.value)
    return str(caught.value)


def test_a_file_of_its_owner_is_read(key: Path) -> None:
    assert read_secret_file(key, SETTING) == CANARY


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o620])
def test_a_file_that_others_may_read_or_change_is_refused(key: Path, mode: int) -> None:
    key.chmod(mode)

    assert refusal(key).endswith(f"run `chmod 600 {key}`")


def test_a_group_may_read_what_belongs_to_root_only(
    key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key.chmod(0o640)

    monkeypatch.setattr(secret_file, "_ROOT", key.stat().st_uid)
    assert read_secret_file(key, SETTING) == CANARY
    monkeypatch.setattr(secret_file, "_ROOT", OTHER_USER)
    assert "chmod 600" in refusal(key)


def test_a_file_of_another_user_is_refused(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = key.stat().st_uid
    monkeypatch.setattr(secret_file, "_ROOT", OTHER_USER)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)

    assert f"the user with the id {owner}" in refusal(key)
    assert f"chown {OTHER_USER} {key}" in refusal(key)


def test_certificates_may_be_read_by_all_but_changed_by_nobody_else(key: Path) -> None:
    key.chmod(0o644)
    assert read_certificate_file(key, SETTING) == CANARY

    key.chmod(0o664)
    with pytest.raises(ConfigError, match=f"chmod go-w {key}"):
        read_certificate_file(key, SETTING)


def test_a_folder_in_which_others_may_replace_the_file_is_refused(key: Path) -> None:
    key.parent.chmod(0o777)
    try:
        assert refusal(key).endswith(f"run `chmod o-w {key.parent}`")
        key.parent.chmod(0o1777)  # as /tmp
        assert read_secret_file(key, SETTING) == CANARY
    finally:
        key.parent.chmod(0o700)


def test_links_of_the_own_user_are_followed(key: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("second")
    (tmp_path / "second").symlink_to(key)

    assert read_secret_file(tmp_path / "link", SETTING) == CANARY


def test_a_link_of_another_user_is_refused(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(key)
    trusted = secret_file._is_trusted
    links = {link.lstat().st_ino}
    monkeypatch.setattr(
        secret_file, "_is_trusted", lambda found: found.st_ino not in links and trusted(found)
    )

    assert f"the link {link} belongs to" in refusal(link)


def test_a_link_into_a_folder_of_others_is_refused(key: Path, tmp_path: Path) -> None:
    folder = tmp_path / "of-all"
    folder.mkdir()
    moved = folder / "key.pem"
    key.rename(moved)
    folder.chmod(0o777)
    (tmp_path / "link").symlink_to(moved)

    assert refusal(tmp_path / "link").endswith(f"run `chmod o-w {folder}`")


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)

    assert "not a regular file" in refusal(pipe)
    assert "not a regular file" in refusal(tmp_path)
    assert "No such file" in refusal(tmp_path / "absent")
    (tmp_path / "circle").symlink_to("circle")
    assert "symbolic links" in refusal(tmp_path / "circle")


def test_a_file_that_is_replaced_after_its_check_is_refused(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault_of_way = secret_file._fault_of_way

    def replaced(path: Path) -> str:
        (tmp_path / "other").write_bytes(b"of somebody else")
        (tmp_path / "other").rename(path)
        return fault_of_way(path)

    monkeypatch.setattr(secret_file, "_fault_of_way", replaced)

    with pytest.raises(ConfigError, match="replaced while it was read"):
        read_secret_file(key, SETTING)


def test_a_file_that_is_too_long_is_refused(key: Path) -> None:
    key.write_bytes(bytes(SECRET_FILE_BYTES_MAX + 1))

    with pytest.raises(ConfigError, match="more than"):
        read_secret_file(key, SETTING)


@pytest.mark.parametrize("content", [b"pass word", b"pass word\n", b"pass word\r\n"])
def test_a_password_is_one_line(key: Path, content: bytes) -> None:
    key.write_bytes(content)

    assert read_password_file(key, SETTING) == "pass word"


@pytest.mark.parametrize(
    ("content", "fault"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"a\nb\n", "several lines"), (b"\xff", "not UTF-8")],
)
def test_a_file_that_is_not_one_line_has_no_password(key: Path, content: bytes, fault: str) -> None:
    key.write_bytes(content)

    with pytest.raises(ConfigError, match=fault):
        read_password_file(key, SETTING)

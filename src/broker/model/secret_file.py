"""Files with keys and passwords: they are read only where nobody else can read or replace them.

Refused is a file that other users may read or write, that belongs to another user than the broker's
or root, or that is reached by a link or in a folder that other users can replace. A group may read
a file of root's: Debian's ssl-cert and Kubernetes's fsGroup are such groups. Links are followed,
because Kubernetes and certbot make them.
"""

import os
import stat
from pathlib import Path

from broker.model.errors import ConfigError
from broker.model.security_limits import SECRET_FILE_BYTES_MAX

_ROOT = 0


def read_secret_file(path: Path, setting: str) -> bytes:
    """Return the content of a file with a key or a password.

    Raises ConfigError, which names the setting and says what to do, and nothing of the content.
    """
    checked = _checked(path, setting, is_public=False)
    return _content(path, setting, checked)


def read_certificate_file(path: Path, setting: str) -> bytes:
    """Return the content of a file that everybody may read, but nobody else may change.

    Raises ConfigError.
    """
    checked = _checked(path, setting, is_public=True)
    return _content(path, setting, checked)


def check_secret_file(path: Path, setting: str) -> None:
    """Check a file with a key or a password that a library reads by its name; ConfigError."""
    _checked(path, setting, is_public=False)


def read_password_file(path: Path, setting: str) -> str:
    """Return the password in a file: its text without the end of the last line. ConfigError."""
    try:
        text = read_secret_file(path, setting).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{setting}={path}: it is not UTF-8 text") from None
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise ConfigError(f"{setting}={path}: it is empty; write the password into it")
    if "\n" in password:
        raise ConfigError(f"{setting}={path}: it has several lines; a password is one line")
    return password


def _content(path: Path, setting: str, checked: os.stat_result) -> bytes:
    try:
        with path.open("rb") as file:
            opened = os.fstat(file.fileno())
            if not os.path.samestat(opened, checked):
                raise ConfigError(f"{setting}={path}: it was replaced while it was read; try again")
            content = file.read(SECRET_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{setting}={path}: {error.strerror}") from None
    if len(content) > SECRET_FILE_BYTES_MAX:
        raise ConfigError(f"{setting}={path}: it has more than {SECRET_FILE_BYTES_MAX} bytes")
    return content


def _checked(path: Path, setting: str, *, is_public: bool) -> os.stat_result:
    """Return the state of a file that is fit for what it has; raises ConfigError."""
    try:
        found = path.stat()
        fault = _fault_of_file(found, path, is_public=is_public) or _fault_of_way(path)
    except OSError as error:
        raise ConfigError(f"{setting}={path}: {error.strerror}") from None
    if fault:
        raise ConfigError(f"{setting}={path}: {fault}")
    return found


def _fault_of_file(found: os.stat_result, path: Path, *, is_public: bool) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if not _is_trusted(found):
        return (
            f"it belongs to the user with the id {found.st_uid}, who could change it:"
            f" run `chown {os.geteuid()} {path}`"
        )
    mode = stat.S_IMODE(found.st_mode)
    if is_public:
        is_open = mode & (stat.S_IWGRP | stat.S_IWOTH)
        return f"other users may change it: run `chmod go-w {path}`" if is_open else ""
    of_others = stat.S_IRWXO | stat.S_IRWXG
    if found.st_uid == _ROOT:
        of_others &= ~stat.S_IRGRP
    return f"other users may read or change it: run `chmod 600 {path}`" if mode & of_others else ""


def _fault_of_way(path: Path) -> str:
    """Return what is wrong with the links and folders that lead to a file that exists."""
    for step in _way(path):
        found = step.lstat()
        if stat.S_ISLNK(found.st_mode):
            if not _is_trusted(found):
                return f"the link {step} belongs to the user with the id {found.st_uid}"
        elif found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"other users may replace it: run `chmod o-w {step}`"
    return ""


def _way(path: Path) -> list[Path]:
    """Return the links and folders through which a path leads, also inside of the links."""
    resolved = path.resolve()
    links = []
    step = path.absolute()
    while step.is_symlink():
        links.append(step)
        step = step.parent / step.readlink()
    return [*links, *path.absolute().parents, *resolved.parents]


def _is_trusted(found: os.stat_result) -> bool:
    return found.st_uid in (_ROOT, os.geteuid())

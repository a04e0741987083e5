"""The README's four commands that lock a broker."""

import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.support.broker_process import wait_until
from tests.support.login_client import LoginClient, is_served
from tests.test_documents import client_snippet, code_blocks, run
from tests.test_readme_clusters import At, ports_in_a_row, shell

PASSWORD = "her password"
USER_COMMAND = "broker user create alice"
TOPIC_DENIED = 29


@pytest.fixture(scope="module")
def cryptography() -> None:
    """Skip where the extra of the first command is not installed."""
    pytest.importorskip("cryptography")


@pytest.mark.client
@pytest.mark.usefixtures("cryptography")
def test_four_commands_of_the_readme_lock_a_broker(tmp_path: Path, choices: Random) -> None:
    [block] = [each for each in code_blocks("README.md", "sh") if "broker cert" in each]
    commands = [each for each in re.split(r"(?<!\\)\n", block) if each]
    assert len(commands) == 4
    *before, start = commands
    assert any(each.startswith(USER_COMMAND) for each in before)
    _, [port, _, _] = ports_in_a_row(choices)
    start = start.replace("localhost:9092", f"localhost:{port}") + " &"
    (tmp_path / "password").touch(0o600)
    (tmp_path / "password").write_text(PASSWORD)
    for command in before:
        # A reader types the password; there is no terminal here.
        asked = command.replace(USER_COMMAND, f"{USER_COMMAND} --password-file password")
        _bash(asked, tmp_path)
    [settings] = code_blocks("README.md", "properties")
    options = dict(line.split("=", 1) for line in settings.splitlines())
    assert options["sasl.password"] == PASSWORD
    snippet = client_snippet(At(f"localhost:{port}"))
    more = ", ".join(f"{name!r}: {value!r}" for name, value in options.items())
    locked = snippet.replace('"bootstrap.servers"', f'{more}, "bootstrap.servers"')

    with shell(start, tmp_path):
        wait_until(lambda: _listens(port), "the broker listens")
        shown = run(locked, tmp_path)
        _check_that_others_are_refused(f"localhost:{port}", tmp_path)

    assert shown == "b'hello'\n"


def _bash(command: str, folder: Path) -> None:
    programs = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["/bin/bash", "-c", command], cwd=folder, env=environment, check=True)


def _listens(port: int) -> bool:
    try:
        with LoginClient(f"127.0.0.1:{port}"):
            return True
    except OSError:
        return False


def _check_that_others_are_refused(address: str, folder: Path) -> None:
    tls = ssl.create_default_context(cafile=str(folder / "certs" / "ca.pem"))
    assert not is_served(address)  # without TLS
    with LoginClient(address, tls) as wrong:
        wrong.fail_to_log_in("alice", "a guess", "SCRAM-SHA-512")
    with LoginClient(address, tls) as alice:
        alice.log_in("alice", PASSWORD, "SCRAM-SHA-512")
        assert alice.produce("of-others", [b"no"]) == TOPIC_DENIED

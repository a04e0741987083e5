"""The way of a new user: every command of docs/quickstart.md, in its order, in one shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import held_port
from tests.test_documents import code_blocks

PAGE = "docs/quickstart.md"
EXIT_CODE = re.compile(r"^(.*?)\s+# exit code (\d+)$")
# Waits for what a reader waits for: the first line of the broker.
_START = """\
{command} >started 2>>log &
for _ in $(seq 600); do grep -q listens started 2>/dev/null && break; sleep 0.05; done
"""


def script(port: int) -> str:
    """Return the commands of the page, without the installation, each with its exit code."""
    install, *blocks = code_blocks(PAGE, "sh")
    assert install.splitlines()[-1].split("  ")[0] == "pip install ."
    lines = [line for block in blocks for line in block.splitlines()]
    # `%broker` is the job of that name: the only one at the end.
    return "set -m\n" + "".join(map(_checked, (_here(line, port) for line in lines)))


def _here(line: str, port: int) -> str:
    return line.replace("broker start ", f"broker start --listen 127.0.0.1:{port} ")


def _checked(line: str) -> str:
    if line.endswith(" &"):
        return f": >started\n{_START.format(command=line.removesuffix(' &'))}"
    found = EXIT_CODE.match(line)
    command, code = (found[1], int(found[2])) if found else (line, 0)
    return (
        f"echo '$ {command}' | sed 's/ *#.*//'\n{command}\ncode=$?\n"
        f"[ $code = {code} ] || {{ echo exit code $code, expected {code}; kill -9 %%; exit 1; }}\n"
    )


@pytest.mark.client
@pytest.mark.slow("is the whole way of a new user, with a demo of five seconds")
def test_every_command_of_the_quickstart_works_in_its_order(tmp_path: Path) -> None:
    holder, port = held_port()
    profiles = tmp_path / "config" / "polylog" / "profiles.toml"
    profiles.parent.mkdir(parents=True)
    profiles.write_text(
        f'current = "here"\n[profiles.here]\nbootstrap_server = "127.0.0.1:{port}"\n'
    )
    programs = Path(sys.executable).parent
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    commands = f"{script(port)}\nwait\n"

    try:
        done = subprocess.run(
            ["/bin/bash", "-c", commands],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    finally:
        os.close(holder)

    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("\nhello\n") == 2  # before and after kill -9
    assert "did you mean num.partitions" in said
    assert "no broker at localhost:1 (" in said
    assert "no broker at 127.0.0.1" in said
    assert "data-dir.txt" in said
    assert "Unit" in (tmp_path / "polylog.service").read_text()

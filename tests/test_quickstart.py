"""The way of a new user: every command of a page, in its order, in one shell."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.broker_process import held_port
from tests.support.small_disk import small_disk
from tests.test_documents import code_blocks

EXIT_CODE = re.compile(r"^(.*?)\s+# exit code (\d+)$")
# Waits for what a reader waits for: the first line of the broker.
_START = """\
{command} >started 2>>log &
for _ in $(seq 600); do grep -q listens started 2>/dev/null && break; sleep 0.05; done
"""


def script(blocks: Sequence[str], port: int) -> str:
    """Return the commands of a page, each with its exit code."""
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


def said_in(folder: Path, blocks: Sequence[str], more: str = "") -> str:
    """Run the commands of a page in a folder as a new user would; return all that they print."""
    holder, port = held_port()
    profiles = folder / "config" / "polylog" / "profiles.toml"
    profiles.parent.mkdir(parents=True)
    profiles.write_text(
        f'current = "here"\n[profiles.here]\nbootstrap_server = "127.0.0.1:{port}"\n'
    )
    programs = Path(sys.executable).parent
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    commands = f"{script(blocks, port)}\nwait\n"

    try:
        done = subprocess.run(
            ["/bin/bash", "-c", commands],
            cwd=folder,
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
    return said


@pytest.mark.client
@pytest.mark.slow("is the whole way of a new user, with a demo of five seconds")
def test_every_command_of_the_quickstart_works_in_its_order(tmp_path: Path) -> None:
    install, *blocks = code_blocks("docs/quickstart.md", "sh")
    assert install.splitlines()[-1].split("  ")[0] == "pip install ."

    said = said_in(tmp_path, blocks)

    assert said.count("\nhello\n") == 2  # before and after kill -9
    assert "did you mean num.partitions" in said
    assert "no broker at localhost:1 (" in said
    assert "no broker at 127.0.0.1" in said
    assert "a CRC that does not fit" in said
    # The reader has found the damage, or was told of it: the broker looks at segments just closed.
    assert re.search(r"sealed-0(: the batch of offsets 0 to | at offset 0: .*STORAGE_ERROR)", said)
    assert "\n299990\n" not in said
    assert "\n299991\n" in said
    assert "data-dir.txt" in said
    assert "Unit" in (tmp_path / "polylog.service").read_text()


@pytest.mark.client
@pytest.mark.slow("fills a disk")
def test_every_command_of_the_page_about_a_full_disk_works_in_its_order(tmp_path: Path) -> None:
    [block] = [each for each in code_blocks("docs/operations.md", "sh") if "tmpfs" in each]
    first, *others = block.splitlines()
    assert first == "mkdir small && mount -t tmpfs -o size=32m tmpfs small"
    with small_disk(tmp_path, "tmpfs", 32 << 20) as disk:
        (tmp_path / "small").symlink_to(disk)

        said = said_in(tmp_path, ["\n".join(others)])

    assert "disk_refuse" in said or "disk_read_only" in said
    assert "which disk is full" in said

"""The container's image: what its Dockerfile says, and its command as the container runs it.

No container runs here: a mount namespace has the same read-only root, the same numeric user
without capabilities, and the same command line and health check as the image.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.generate.compose_verb import COMPOSE
from tests.support.broker_process import printed_address, wait_until
from tests.support.wire_client import WireClient

ROOT = Path(__file__).parents[1]
USER = 10001
_SANDBOX = """\
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/data
mount --bind "$1" /mnt/data
shift
number=0
for each in $NEEDED; do
  number=$((number + 1))
  mkdir /mnt/$number
  mount --bind "$each" /mnt/$number
done
for each in $HIDDEN; do mount -t tmpfs -o mode=755 tmpfs "$each"; done
number=0
for each in $NEEDED; do
  number=$((number + 1))
  mkdir -p "$each"
  mount --bind /mnt/$number "$each"
done
mount -o remount,bind,ro /
for each in $(awk '{print $2}' /proc/mounts); do
  case "$each" in
    /mnt/data | /proc* | /sys* | /dev*) ;;
    *) mount -o remount,bind,ro "$each" || true ;;
  esac
done
cd /
exec setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --bounding-set=-all "$@"
"""


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile and their arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", "", text)
    return [
        (name, rest)
        for name, _, rest in (each.partition(" ") for each in joined.split("\n") if each)
    ]


def last_stage() -> dict[str, list[str]]:
    """Return the arguments of each instruction of the image that is shipped."""
    every = instructions()
    start = max(index for index, (name, _) in enumerate(every) if name == "FROM")
    found: dict[str, list[str]] = {}
    for name, rest in every[start:]:
        found.setdefault(name, []).append(rest)
    return found


def command_line() -> list[str]:
    """Return the arguments of `broker` in the image."""
    image = last_stage()
    assert json.loads(image["ENTRYPOINT"][0]) == ["broker"]
    arguments: list[str] = json.loads(image["CMD"][0])
    return arguments


def test_the_image_is_made_of_a_wheel_and_runs_as_a_numeric_user() -> None:
    every, image = instructions(), last_stage()
    stages = [rest for name, rest in every if name == "FROM"]

    assert len(stages) == 2
    assert all(re.fullmatch(r"python:\$\{PYTHON\}-slim( AS build)?", each) for each in stages)
    assert image["USER"] == [f"{USER}:{USER}"]
    assert image["STOPSIGNAL"] == ["SIGTERM"]
    assert [json.loads(each) for each in image["VOLUME"]] == [["/data"]]
    assert not [rest for name, rest in every if name == "ADD"]
    assert not [rest for name, rest in every if name == "RUN" and "sudo" in rest]
    assert all(each.startswith("--from=build ") for each in image["COPY"])


def test_packages_of_the_system_are_installed_without_what_they_recommend() -> None:
    installs = [
        rest for name, rest in instructions() if name == "RUN" and "apt-get install" in rest
    ]

    assert len(installs) == 1
    assert "--no-install-recommends" in installs[0]
    assert "rm -rf /var/lib/apt/lists/*" in installs[0]


def test_the_context_of_the_image_has_what_the_wheel_is_built_of() -> None:
    kept = {each[1:] for each in (ROOT / ".dockerignore").read_text().split() if each[0] == "!"}

    assert {"src", "docs", "pyproject.toml", "CMakeLists.txt", "tools/index_readme.py"} <= kept
    assert not {"tests", "benchmarks", "build", ".git", ".venv"} & kept


def test_the_composition_of_the_repository_is_the_one_that_is_generated() -> None:
    assert (ROOT / "compose.yaml").read_text() == COMPOSE


def composed() -> dict[str, str]:
    """Return the variables of the composition."""
    [block] = re.findall(r"environment:\n((?:      .*\n)+)", COMPOSE)
    settings = re.findall(r"^ +(BROKER_\w+): \"?([^\"\n]+)\"?$", block, re.MULTILINE)
    return {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", each) for name, each in settings}


def told() -> dict[str, str]:
    """Return the variables of the command in the comment of the Dockerfile."""
    return dict(re.findall(r"^#.* -e (\w+)=(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("settings", [composed(), told()], ids=["compose.yaml", "Dockerfile"])
def test_variables_of_the_container_are_read_by_the_broker(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    arguments = [each.replace("/data", str(tmp_path)) for each in command_line()]

    done = subprocess.run(
        [sys.executable, "-m", "broker", *arguments, "--check"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "advertised.listeners=localhost:9092  from environment" in done.stdout
    assert "polylog.insecure=true  from environment" in done.stdout


def hidden_ancestor(path: Path) -> Path | None:
    """Return the first folder on the way that another user may not enter."""
    for each in reversed(path.parents):
        if not each.stat().st_mode & 0o001:
            return each
    return None


@pytest.fixture
def sandboxed(tmp_path: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run the image's command without a writable root, as its user; yield its address."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("needs root, unshare and setpriv")
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:  # noqa: S607
        pytest.skip("needs a mount namespace")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, USER, USER)
    needed = [Path(each) for each in {sys.base_prefix, sys.prefix} if hidden_ancestor(Path(each))]
    hidden = {str(hidden_ancestor(each)) for each in needed}
    port_free = [
        {"/data": "/mnt/data", "0.0.0.0:9092": "127.0.0.1:0"}.get(each, each)
        for each in command_line()
    ]
    stderr = (tmp_path / "stderr.txt").open("w")
    process = subprocess.Popen(
        [
            shutil.which("unshare") or "",
            "--mount",
            "sh",
            "-c",
            _SANDBOX,
            "sh",
            str(data),
            sys.executable,
            "-m",
            "broker",
            *port_free,
        ],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={
            "PATH": os.environ["PATH"],
            "NEEDED": " ".join(map(str, needed)),
            "HIDDEN": " ".join(hidden),
            "BROKER_NUM_PARTITIONS": "7",
        },
    )
    try:
        assert process.stdout is not None
        address = printed_address(process.stdout.readline())
        assert address is not None, (tmp_path / "stderr.txt").read_text()
        yield address, process
    finally:
        process.terminate()
        process.wait(60)
        for each in (process.stdout, stderr):
            if each is not None:
                each.close()


@pytest.mark.client
def test_the_command_of_the_image_runs_without_a_writable_root_as_its_user(
    sandboxed: tuple[str, "subprocess.Popen[str]"],
) -> None:
    address, process = sandboxed

    status = Path(f"/proc/{process.pid}/status").read_text()
    with WireClient(address) as client:
        body = {"topics": [{"name": "made"}], "allow_auto_topic_creation": True}
        wait_until(lambda: partitions_of(client, body) == 7, "the topic exists")
    process.terminate()

    assert re.findall(r"^Uid:\s+(\d+)", status, re.MULTILINE) == [str(USER)]
    assert process.wait(60) == 0


def partitions_of(client: WireClient, body: dict[str, object]) -> int:
    """Return how many partitions the only topic of an answer has."""
    [topic] = client.request("Metadata", 12, body)["topics"]
    return len(topic["partitions"])


@pytest.mark.client
def test_the_health_check_of_the_image_succeeds_only_while_the_broker_is_ready(
    sandboxed: tuple[str, "subprocess.Popen[str]"],
) -> None:
    address, process = sandboxed
    [check] = last_stage()["HEALTHCHECK"]
    command = json.loads(check[check.index("[") :])
    assert command[0] == "python"
    assert "'127.0.0.1', 9092" in command[-1], "it asks the port of the image"
    port = address.rpartition(":")[2]
    here = [sys.executable, *command[1:-1], command[-1].replace("9092", port)]

    wait_until(lambda: subprocess.run(here, check=False).returncode == 0, "it is healthy")
    process.terminate()
    process.wait(60)
    after = subprocess.run(here, capture_output=True, check=False)

    assert after.returncode == 1

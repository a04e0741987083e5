"""Every verb answers with -o json what its documentation says, and completes names."""

import json
import resource
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.cli.tree import verbs
from broker.client.metadata import Cluster
from broker.client.pool import Pool
from broker.client.produce import Producer
from broker.client.transactions import Transactions
from broker.core.security.audit_chain import Head, line_of
from broker.model.address import parse_address
from broker.model.clock import SystemClock
from broker.server.workers.layout import share_directory
from tests.cli.group_member import Member
from tests.cli.here import Here
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.command_line import CommandLine
from tests.support.segment_files import write_ascending
from tests.support.wire_client import WireClient

VERBS = dict(verbs())
COMPLETION_CPU_S = 0.15
UNHEALTHY = 8
# How each verb is called. {topic} exists, has a record and a setting; {readers} is a group that has
# read it, {paid} a topic with the open transaction {payment}; {folder} has the files of `prepare`.
CALLS = {
    "acl allow": "User:a --topic {topic} --data-dir {data}",
    "acl list": "--data-dir {data}",
    "acl remove": "User:a --topic {topic} --data-dir {data}",
    "audit verify": "{folder}/audit.jsonl --part",
    "bench": "--seconds 0.1",
    "cert ca": "{folder}/certs",
    "cert client": "{folder}/certs --name a",
    "cert server": "{folder}/certs --host localhost",
    "client list": "",
    "cluster health": "",
    "cluster info": "",
    "config apply": "{folder}/settings.yaml",
    "config diff": "topic/{topic}",
    "config explain": "retention.ms --topic {topic}",
    "config export": "topic/{topic}",
    "config get": "retention.ms --topic {topic}",
    "config lint": "{folder}/server.properties",
    "config list": "--topic {topic}",
    "config set": "retention.ms=90000000 --topic {topic}",
    "config unset": "retention.ms --topic {topic}",
    "debug bundle": "--file {folder}/bundle.tar.gz",
    "demo": "-b 127.0.0.1:1 --records 30 --seconds 0",
    "docs": "",
    "doctor": "--data-dir {folder}",
    "generate client-snippet": "",
    "generate completion": "bash",
    "generate compose": "",
    "generate grafana": "topics",
    "generate prometheus-rules": "",
    "generate systemd": "",
    "group delete": "{readers} --yes",
    "group describe": "{readers}",
    "group explain": "{readers} --wait 0",
    "group lag": "{readers}",
    "group list": "{readers}",
    "group members": "{topic}-members",
    "group seek": "{readers} --to-earliest",
    "group undo": "{readers}",
    "import cursus": "{folder}/cursus",
    "import rustlog": "{folder}/rustlog",
    "import v1": "{folder}/v1",
    "metadata bump-epochs": "--data-dir {data}",
    "metadata export": "{folder}/metadata.jsonl --data-dir {data}",
    "metadata import": "{folder}/exported.jsonl --data-dir {folder}/new",
    "pipeline audit": "{segments}",
    "pipeline lag": "",
    "profile create": "x localhost:1",
    "profile delete": "local",
    "profile list": "",
    "profile show": "local",
    "profile use": "local",
    "segment dump": "{segments}",
    "segment verify": "{segments}",
    "snapshot create": "{folder}/snap --data-dir {broker_data} --topic {topic}",
    "topic alter": "{topic} --config retention.ms=90000000",
    "topic clone": "{topic} {topic}-copy",
    "topic consume": "{topic} -e",
    "topic create": "{topic}-new",
    "topic delete": "{topic} --yes",
    "topic describe": "{topic}",
    "topic export": "{topic} {folder}/records.jsonl",
    "topic import": "{topic} {folder}/empty.jsonl",
    "topic list": "{topic}",
    "topic offsets": "{topic}",
    "topic produce": "{topic}",
    "topic rename": "{topic} {topic}-renamed --yes",
    "topic search": "{topic} rec",
    "topic tail": "{topic} --no-follow",
    "topic trim": "{topic} --keep 0 --yes",
    "txn abort": "{paid}:0 --start-offset 0 --yes",
    "txn describe": "{payment}",
    "txn list": "{payment}",
    "txn producers": "{paid}",
    "user create": "a --password-file - --data-dir {data}",
    "user delete": "alice --yes --data-dir {data}",
    "user list": "--data-dir {data}",
    "user passwd": "alice --password-file - --data-dir {data}",
    "version": "",
}
# These start a JVM: tests/pipeline/test_jobs.py and tests/unit/cli/test_pipeline.py have them.
IN_SPARK = ("pipeline archive", "pipeline dedupe", "pipeline replay")
EVENT = {"class_uid": 3002, "metadata": {"sequence": 1}}
CODES = {"config lint": 1, "group explain": UNHEALTHY}  # of those that find something wrong


def prepare(cli: Here, name: str, words: dict[str, str], closed: ExitStack) -> None:
    """Make what the call of a verb needs."""
    topic, folder, noun = words["topic"], Path(words["folder"]), name.partition(" ")[0]
    if "{topic}" in CALLS[name] or noun in {"config", "group"}:
        cli("topic", "create", topic, "-p", "3")
        cli("topic", "produce", topic, stdin=b"record\n")
        closed.callback(cli, "topic", "delete", f"{topic}.*", "--yes", "--if-exists")
    if noun == "profile":
        cli("profile", "create", "local", cli.address)
    (folder / "empty.jsonl").touch()
    (folder / "settings.yaml").write_text(
        f"- entity: topic/{topic}\n  settings:\n    retention.ms: 86400000\n"
    )
    (folder / "server.properties").write_text("zookeeper.connect=here:2181\n")
    if noun == "config" and name != "config apply":
        cli("config", "set", "retention.ms=95000000", "--topic", topic)
    if noun in {"acl", "metadata", "user"}:
        prepare_stopped(cli, name, folder)
    prepare_files(cli, name, folder)
    if noun == "group":
        cli("topic", "consume", topic, "-e", "-g", words["readers"])
        cli("group", "seek", words["readers"], topic, "--to-earliest")
    if name == "group members":
        client = closed.enter_context(WireClient(cli.address))
        closed.callback(Member(client, f"{topic}-members", topic).leave)
    if noun == "txn":
        pool = Pool(SystemClock())
        closed.callback(pool.close)
        cluster = Cluster([parse_address(cli.address)], pool=pool)
        place = words["paid"], 0
        cli("topic", "create", place[0])
        transactions = Transactions(cluster, words["payment"], 60_000)
        transactions.add([place])
        producer = Producer(cluster, transactions.producer, words["payment"])
        producer.send({place: producer.encode(place, [(b"key", b"value")])})


def prepare_files(cli: Here, name: str, folder: Path) -> None:
    """Make the files that verbs without a broker read."""
    if name == "import cursus":
        (folder / "cursus").mkdir()
        (folder / "cursus" / "__topic_metadata.json").write_text('{"version": 1, "topics": []}')
    if name == "import rustlog":
        (folder / "rustlog").mkdir()
        (folder / "rustlog" / "00000000000000000000.log").touch()
    if name == "import v1":
        (folder / "v1").mkdir()
        (folder / "v1" / "offsets.json").write_text("{}")
    if name == "audit verify":
        (folder / "audit.jsonl").write_bytes(line_of(EVENT, Head(), b"")[0] + b"\n")
    if name.startswith("cert "):
        pytest.importorskip("cryptography")
        if name != "cert ca":
            cli("cert", "ca", str(folder / "certs"))
    if "{segments}" in CALLS.get(name, ""):
        write_ascending(folder)


def prepare_stopped(cli: Here, name: str, folder: Path) -> None:
    """Make the data directory of a stopped broker, with an entry and a user, and its export."""
    data = folder / "data"
    at = ("--data-dir", str(data))
    cli("acl", "allow", "User:a", "--group", "g", *at)
    cli("user", "create", "alice", "--password-file", "-", *at, stdin=b"secret\n")
    if name == "metadata bump-epochs":  # of several workers: one broker has no elections
        share_directory(data, [0, 1])
    if name == "metadata import":
        cli("metadata", "export", str(folder / "exported.jsonl"), *at)


def test_every_verb_is_called_here() -> None:
    assert sorted({*CALLS, *IN_SPARK}) == sorted(VERBS)


@pytest.mark.parametrize("name", CALLS)
def test_a_verb_prints_json_with_the_fields_of_its_documentation(
    here: Here, tmp_path: Path, name: str, broker: Broker
) -> None:
    topic = f"cli-{uuid.uuid4().hex[:12]}"
    names = {each: f"{topic}-{each}" for each in ("readers", "paid", "payment")}
    words = {
        "topic": topic,
        "folder": str(tmp_path),
        "data": str(tmp_path / "data"),
        "broker_data": str(broker.data_dir) if isinstance(broker, BrokerProcess) else "",
        "segments": str(tmp_path / "topic-0"),
        **names,
    }
    with ExitStack() as closed:
        prepare(here, name, words, closed)
        called = (*name.split(), *CALLS[name].format(**words).split(), "-o", "json")
        found = json.loads(here(*called, stdin=b"one\ntwo\n", code=CODES.get(name, 0)))

    verb = VERBS[name]
    if verb.totals is not None:
        assert list(found) == ["rows", "totals", "problems"]
        assert list(found["totals"]) == list(verb.totals or verb.row._fields)
    rows = [found] if verb.is_single else found["rows"] if verb.totals is not None else found
    assert rows or verb.totals is not None
    for row in rows:
        assert list(row) == list(verb.row._fields)


def completed(cli: CommandLine, words: str, incomplete: str) -> list[str]:
    """Return what a shell would offer."""
    count = len(words.split())
    asked = CommandLine(
        cli.address,
        {
            **cli.environment,
            "_BROKER_COMPLETE": "bash_complete",
            "COMP_WORDS": f"{words} {incomplete}",
            "COMP_CWORD": str(count),
        },
    )
    return [line.partition(",")[2] for line in asked().text.splitlines() if line]


def test_topics_groups_and_names_of_settings_are_completed(cli: CommandLine, topic: str) -> None:
    cli("topic", "produce", topic, stdin=b"record\n")
    cli("topic", "consume", topic, "-e", "-g", f"{topic}-readers")

    assert completed(cli, "broker topic describe", topic[:8]) == [topic]
    assert completed(cli, "broker topic consume x -g", topic[:8]) == [f"{topic}-readers"]
    found = completed(cli, f"broker topic alter {topic} --config", "retention")
    assert "retention.ms=" in found


def test_nothing_is_completed_without_a_broker(cli: CommandLine) -> None:
    nowhere = CommandLine("127.0.0.1:1", cli.environment)

    assert completed(nowhere, "broker topic describe", "x") == []


def test_a_completion_of_topics_is_quick(cli: CommandLine, topic: str) -> None:
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert completed(cli, "broker topic describe", topic[:8]) == [topic]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(found) <= COMPLETION_CPU_S


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_its_script(cli: CommandLine, shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(cli("generate", "completion", shell).out)

    try:
        ended = subprocess.run([shell, "-n", str(script)], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"{shell} is not installed")

    assert (ended.returncode, ended.stderr) == (0, b"")


def test_bash_completes_with_the_script(cli: CommandLine, topic: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(cli("generate", "completion", "bash").out)
    program = tmp_path / "broker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m broker "$@"\n')
    program.chmod(0o755)
    lines = (
        f"source {script}; COMP_WORDS=({program} topic describe {topic[:8]}); COMP_CWORD=3;"
        f" _broker_completion {program}; echo $COMPREPLY"
    )
    environment = {
        "BROKER_BOOTSTRAP_SERVER": cli.address,
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }

    ended = subprocess.run(
        ["/bin/bash", "-c", lines], capture_output=True, text=True, check=False, env=environment
    )

    assert ended.stdout.strip() == topic, ended.stderr

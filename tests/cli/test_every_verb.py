"""Every verb answers with -o json what its documentation says, and completes names."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.cli.tree import verbs
from tests.support.command_line import CommandLine

VERBS = dict(verbs())
COMPLETION_CPU_S = 0.15
# How each verb is called; {topic} exists and has a record, which {group} has read; a transaction of
# {transaction} is open; {folder} has files of records, of settings, and of nothing.
CALLS = {
    "bench": "--seconds 0.2",
    "client list": "",
    "cluster health": "",
    "cluster info": "",
    "config apply": "{folder}/settings.json --dry-run",
    "config diff": "topic/{topic}",
    "config explain": "retention.ms",
    "config export": "topic/{topic}",
    "config get": "retention.ms --topic {topic}",
    "config lint": "{folder}/server.properties",
    "config list": "--topic {topic} --all",
    "config set": "retention.ms=90000000 --topic {topic} --dry-run",
    "config unset": "retention.ms --topic {topic} --dry-run",
    "debug bundle": "--file {folder}/bundle.tar.gz",
    "demo": "--records 10 --seconds 1",
    "docs": "",
    "doctor": "--data-dir {folder}",
    "generate client-snippet": "",
    "generate completion": "bash",
    "generate compose": "",
    "generate systemd": "",
    "group delete": "{group} --yes",
    "group describe": "{group}",
    "group explain": "{group} --wait 0",
    "group lag": "{group}",
    "group list": "{group}",
    "group members": "{group}",
    "group seek": "{group} --to-earliest",
    "group undo": "{group}",
    "profile create": "x localhost:1",
    "profile delete": "local",
    "profile list": "",
    "profile show": "local",
    "profile use": "local",
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
    "txn abort": "{topic}:0 --dry-run",
    "txn describe": "{transaction}",
    "txn list": "{transaction}",
    "txn producers": "{topic}",
    "version": "",
}
WITHOUT_ROWS = {"group members"}  # it has none
EXIT_CODES = {"config lint": 1, "group explain": 8}  # what they find is a problem


def test_every_verb_is_called_here() -> None:
    assert sorted(CALLS) == sorted(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_prints_json_with_the_fields_of_its_documentation(
    cli: CommandLine, topic: str, tmp_path: Path, name: str
) -> None:
    cli("topic", "produce", topic, stdin=b"record\n")
    cli("profile", "create", "local", cli.address)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "server.properties").write_text("num.partition=3\n")
    named = {"topic": topic, "folder": tmp_path}
    if "{group}" in CALLS[name]:
        named["group"] = f"{topic}-readers"
        cli("topic", "consume", topic, "-e", "-g", f"{topic}-readers")
    if name == "group undo":
        cli("group", "seek", f"{topic}-readers", "--to-earliest")
    if name == "config apply":
        cli("config", "set", "retention.ms=90000000", "--topic", topic)
        settings = cli("config", "export", f"topic/{topic}", "-o", "json").text
        (tmp_path / "settings.json").write_text(settings.replace("90000000", "80000000"))
    if name in {"config diff", "config export", "config unset"}:
        cli("config", "set", "retention.ms=90000000", "--topic", topic)
    producer = None
    if name.startswith("txn"):
        named["transaction"] = f"{topic}-transaction"
        producer = Producer(
            {"bootstrap.servers": cli.address, "transactional.id": f"{topic}-transaction"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=0)
        producer.flush(30)
    words = CALLS[name].format_map(named).split()
    if name == "txn abort":
        producers = json.loads(cli("txn", "producers", f"{topic}:0", "--open", "-o", "json").out)
        words += ["--producer-id", str(producers[0]["producer_id"])]

    code = EXIT_CODES.get(name, 0)
    ended = cli(*name.split(), *words, "-o", "json", stdin=b"one\ntwo\n", code=code)
    found = json.loads(ended.out)
    if producer is not None:
        producer.abort_transaction(30)

    verb = VERBS[name]
    rows = [found] if verb.is_single else found
    assert rows or name in WITHOUT_ROWS
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

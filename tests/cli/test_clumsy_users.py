"""What users get wrong, or run into, at a real broker."""

from pathlib import Path

import pytest

from broker.cli.checks import PROBLEM, Check
from broker.cli.exit_codes import Exit
from broker.cli.topic.writing import input_of
from broker.model.errors import ErrorCode, RequestError
from tests.cli.group_member import Member
from tests.cli.here import Here
from tests.support.wire_client import WireClient

LARGE = b"x" * 3_000_000


def test_records_are_as_large_as_the_topic_takes(here: Here, here_topic: str) -> None:
    refused = here("topic", "produce", here_topic, stdin=LARGE, code=Exit.USAGE, has_err=True)
    assert f"`broker topic alter {here_topic} --config max.message.bytes=BYTES`" in refused

    here("topic", "alter", here_topic, "--config", "max.message.bytes=4000000")
    here("topic", "produce", here_topic, stdin=LARGE)
    assert '"size_bytes": 3000' in here("topic", "list", here_topic, "-o", "json")


def test_a_group_with_members_is_refused_before_anything_is_printed(
    here: Here, here_topic: str
) -> None:
    here("topic", "produce", here_topic, stdin=b"a record\n")
    group = f"{here_topic}-members"
    with WireClient(here.address) as client:
        member = Member(client, group, here_topic)
        words = ("topic", "consume", here_topic, "-e", "-g", group, "-o", "json")
        said = here(*words, code=Exit.CONFLICT, has_err=True)
        member.leave()

    assert "a record" not in said
    assert "stop them first" in said


def test_settings_of_a_topic_that_does_not_exist_are_refused_at_once(
    here: Here, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("- entity: topic/none-such\n  settings:\n    retention.ms: 1\n")

    said = here("config", "apply", str(file), code=Exit.NOT_FOUND, has_err=True)

    assert "there is no topic named 'none-such'" in said


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        ("group lag none-such", "group"),
        ("txn describe none-such", "txn"),
        ("topic offsets none-such", "topic"),
        ("config get retention.ms --topic none-such", "topic"),
    ],
)
def test_a_wrong_name_says_where_the_right_ones_are(here: Here, words: str, noun: str) -> None:
    said = here(*words.split(), code=Exit.NOT_FOUND, has_err=True)

    assert said.endswith(f": `broker {noun} list` shows those that exist\n")


def test_a_topic_that_exists_says_how_to_accept_it(here: Here, here_topic: str) -> None:
    said = here("topic", "create", here_topic, code=Exit.CONFLICT, has_err=True)

    assert "--if-not-exists" in said


def test_a_full_disk_is_a_problem_of_the_cluster(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Check("health", PROBLEM, "broker 1", "disk_read_only (1)", "delete topics")
    monkeypatch.setattr("broker.cli.cluster.health.page_checks", lambda *_: iter([full]))

    assert "disk_read_only" in here("cluster", "health", code=Exit.UNHEALTHY)


def test_a_refused_write_says_where_to_look_and_what_was_written() -> None:
    class Written:
        written = 1200

    with pytest.raises(RequestError) as refused, input_of(Written()):  # type: ignore[arg-type]
        raise RequestError(ErrorCode.NOT_ENOUGH_REPLICAS, "fewer replicas are in sync")

    assert str(refused.value) == (
        "fewer replicas are in sync: `broker cluster health` says which replicas are missing, or"
        " which disk is full; the 1,200 records before it were written"
    )

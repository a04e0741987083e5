"""`broker group undo`, when not everything is as it was."""

from tests.support.command_line import CommandLine


def test_an_undo_leaves_out_topics_that_were_deleted(cli: CommandLine, topic: str) -> None:
    gone = f"{topic}-gone"
    cli("topic", "create", gone, "-p", "1")
    for each in (topic, gone):
        cli("topic", "produce", each, "-p", "0", stdin=b"record\n")
    cli("group", "seek", topic, f"{topic}:0", gone, "--to-earliest")
    cli("group", "seek", topic, "--to-latest")
    cli("topic", "delete", gone, "--yes")

    undone = cli("group", "undo", topic)

    assert [(row["topic"], row["after"]) for row in undone.rows] == [(topic, 0)]
    assert f"left out: {gone}-0 do not exist any more" in undone.err
    cli("topic", "delete", topic, "--yes")
    assert "do not exist any more" in cli("group", "undo", topic, code=3).err

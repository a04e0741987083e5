"""Topics follow what the image has become, each once for all of its changes."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import pytest

from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.image import Topic as KnownTopic
from broker.core.cluster.records import TopicRecord
from broker.model.errors import StorageError
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP, TOPICS_FOLLOWED_AT_ONCE
from broker.server.cluster import following as following_module
from broker.server.cluster.following import Following

_ID = bytes(range(16))


class FakeNode:
    """The image, and what reports its changes."""

    def __init__(self) -> None:
        self.metadata = self.member = self
        self.image = ClusterImage()
        self.image.topics[_ID] = KnownTopic("a", 1, TopicRecord(_ID, 100, ((1,),) * 100, {1: 1}))
        self.image.topic_ids["a"] = _ID
        self._callbacks: list[Callable[[Delta], None]] = []

    def when_changed(self, callback: Callable[[Delta], None]) -> None:
        self._callbacks.append(callback)

    def when_phase_changes(self, _callback: Callable[[], None]) -> None:
        """The phase never changes."""

    def change(
        self,
        *,
        topic: bool = False,
        partitions: Collection[int] = (),
        configs: Collection[bytes] = (),
    ) -> None:
        delta = Delta()
        delta.configs = {b"conf/topic/" + each: None for each in configs}
        delta.topics = {_ID: None} if topic else {}
        delta.partitions = {(_ID, each): None for each in partitions}
        for callback in self._callbacks:
            callback(delta)


class FakeTopics:
    """What is followed, by topic and partitions; a disk fails for topics named `failing-...`."""

    def __init__(self) -> None:
        self.followed: list[tuple[str, list[int] | None]] = []

    def when_busy(self, _callback: Callable[[str], None]) -> None:
        """No log is open elsewhere."""

    def names(self) -> list[str]:
        return []

    async def follow(self, name: str, partitions: Collection[int] | None = None) -> None:
        self.followed.append((name, None if partitions is None else list(partitions)))
        if name.startswith("failing-"):
            raise StorageError("planted")


def followed(*changes: dict[str, Any]) -> list[tuple[str, list[int] | None]]:
    """Return what is followed after changes that come at once."""
    node, topics = FakeNode(), FakeTopics()
    following = Following(node, topics)  # type: ignore[arg-type]

    async def run() -> None:
        for change in changes:
            node.change(**change)
        task = asyncio.ensure_future(following.run())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
    return topics.followed


def test_changes_of_leaders_are_followed_by_partition() -> None:
    assert followed({"partitions": [3, 1]}, {"partitions": [1, 2]}) == [("a", [3, 1, 2])]


def test_a_topic_that_has_changed_itself_is_followed_as_a_whole() -> None:
    assert followed({"topic": True}, {"partitions": [3]}) == [("a", None)]
    assert followed({"partitions": [3]}, {"topic": True}) == [("a", None)]


def test_topics_that_cannot_be_followed_do_not_delay_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following_module, "CLUSTER_RETRY_MS", 60_000)
    failing = [b"failing-%d" % each for each in range(TOPICS_FOLLOWED_AT_ONCE)]

    assert followed({"configs": [*failing, b"good"]})[-1] == ("good", None)


def test_a_topic_that_cannot_be_followed_is_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following_module, "CLUSTER_RETRY_MS", 0)

    assert len(followed({"configs": [b"failing-1"]})) > 1


def test_a_configuration_under_a_key_that_is_no_name_is_of_no_topic() -> None:
    assert followed({"configs": [b"\xff"]}) == [("\ufffd", None)]


def test_everything_has_caught_up_once_all_changed_partitions_are_followed() -> None:
    node, topics = FakeNode(), FakeTopics()
    following = Following(node, topics)  # type: ignore[arg-type]
    many = range(3 * CLUSTER_PARTITIONS_PER_STEP)  # they are looked at in steps

    async def run() -> None:
        task = asyncio.ensure_future(following.run())
        node.change(partitions=many)
        await following.caught_up()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
    assert topics.followed == [("a", list(many))]

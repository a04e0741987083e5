"""What is altered through one broker is in force on all, once each has followed it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker.core.cluster.image import Delta
from broker.core.configs import records as config_records
from broker.model.errors import ErrorCode, RequestError
from broker.model.own_config import ConfigChange, OwnConfig
from broker.server.cluster.following import FollowingConfigs
from broker.storage import metadata
from broker.storage.metadata import Put
from tests.support.fakes import FakeBroker
from tests.support.memory_cluster import MemoryCluster, MemoryMetadata, catch_up

RETENTION = "log.retention.ms"


def sets(name: str, value: str | None) -> ConfigChange:
    """Return the change that sets one key, and keeps the others."""

    def change(now: OwnConfig) -> dict[str, str]:
        kept = {key: text for key, text in now.overrides.items() if key != name}
        return kept if value is None else {**kept, name: value}

    return change


def known(broker: FakeBroker) -> MemoryMetadata:
    assert isinstance(broker.metadata, MemoryMetadata)
    return broker.metadata


def pair(**second: str) -> tuple[MemoryCluster, FakeBroker, FakeBroker]:
    """Return a cluster and its two brokers; the second one has more settings."""
    cluster = MemoryCluster(1, 2)
    return cluster, cluster.broker(1), cluster.broker(2, **second)


def alter(broker: FakeBroker, name: str, key: str, value: str | None) -> None:
    asyncio.run(broker.configs.alter(name, sets(key, value)))


def follow(broker: FakeBroker) -> None:
    catch_up(broker)
    asyncio.run(broker.configs.follow())


def retention(broker: FakeBroker, topic: str = "a") -> int:
    found = broker.topics.get(topic)
    assert found is not None
    return found.config.integer("retention.ms")


def test_a_default_of_all_brokers_is_in_force_on_each_with_its_heirs_and_callbacks() -> None:
    _, first, second = pair()
    second.create("a")
    second.create("own", config={"retention.ms": "9"})
    seen: list[int] = []
    second.configs.when_altered(lambda config: seen.append(config.integer("max.connections")))

    alter(first, "", RETENTION, "77")
    alter(first, "", "max.connections", "5")
    assert second.config.integer("max.connections") != 5
    follow(second)

    assert (retention(second), retention(second, "own"), seen) == (77, 9, [5])
    assert second.create("b").config.integer("retention.ms") == 77


def test_the_settings_of_one_broker_are_not_those_of_another() -> None:
    cluster, first, second = pair()

    alter(first, "1", "max.connections", "5")
    follow(second)

    assert first.config.integer("max.connections") == 5
    assert second.config.integer("max.connections") != 5
    assert cluster.broker(1).config.integer("max.connections") == 5, "after a restart, too"


def test_an_alteration_never_takes_back_one_that_is_not_followed_yet() -> None:
    _, first, second = pair()

    alter(first, "", RETENTION, "77")
    catch_up(second)
    alter(second, "", "max.connections", "5")
    follow(first)

    for broker in (first, second):
        assert (broker.config.integer(RETENTION), broker.config.integer("max.connections")) == (
            77,
            5,
        )


def test_two_alterations_at_the_same_time_are_both_made() -> None:
    _, first, second = pair()

    async def both() -> None:
        await asyncio.gather(
            first.configs.alter("", sets(RETENTION, "77")),
            second.configs.alter("", sets("max.connections", "5")),
        )

    asyncio.run(both())
    follow(first)
    follow(second)

    for broker in (first, second):
        assert broker.config.integer(RETENTION) == 77
        assert broker.config.integer("max.connections") == 5


def test_an_alteration_that_is_never_first_has_a_retriable_error() -> None:
    cluster, first, _ = pair()
    transact = cluster.store.transact

    def someone_else_is_first(guards: Any, operations: Any) -> int | None:
        key = metadata.broker_config_key("")
        transact([], [Put(key, b'{"version": 1, "config": {}}')])
        return transact(guards, operations)

    cluster.store.transact = someone_else_is_first  # type: ignore[method-assign]
    with pytest.raises(RequestError) as caught:
        alter(first, "", RETENTION, "77")

    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_a_removed_default_is_not_in_force_any_more() -> None:
    _, first, second = pair()
    before = second.config.get(RETENTION)
    alter(first, "", RETENTION, "77")
    follow(second)

    alter(first, "", RETENTION, None)
    follow(second)

    assert second.config.get(RETENTION) == before


def test_a_value_that_a_broker_cannot_have_is_not_in_force_there_and_others_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, first, second = pair(**{"message.max.bytes": "1000", "socket.request.max.bytes": "1048576"})

    alter(first, "", "message.max.bytes", str(2 << 20))
    alter(first, "", "max.connections", "5")
    follow(second)

    assert second.config.integer("message.max.bytes") == 1000
    assert second.config.integer("max.connections") == 5
    assert "altered setting not in force" in caplog.text


def test_defaults_that_a_topic_of_this_broker_contradicts_are_not_in_force(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, first, second = pair()
    second.create("a", config={"max.compaction.lag.ms": "5"})

    alter(first, "", "log.cleaner.min.compaction.lag.ms", "6")  # it has not seen the topic
    follow(second)

    assert second.config.integer("log.cleaner.min.compaction.lag.ms") == 0
    assert "are not in force" in caplog.text


# ---- groups


def group_session(broker: FakeBroker) -> int:
    return broker.group_configs.setting("g", "consumer.session.timeout.ms")


def alter_group(broker: FakeBroker, key: str, value: str | None) -> None:
    asyncio.run(broker.group_configs.alter("g", sets(key, value)))


def test_a_groups_configuration_follows_and_is_not_taken_back() -> None:
    _, first, second = pair()
    alter_group(first, "consumer.session.timeout.ms", "46000")
    catch_up(second)
    alter_group(second, "consumer.heartbeat.interval.ms", "6000")
    catch_up(first)
    first.group_configs.follow("g")

    for broker in (first, second):
        assert broker.group_configs.of("g").overrides == {
            "consumer.session.timeout.ms": "46000",
            "consumer.heartbeat.interval.ms": "6000",
        }
    alter_group(first, "consumer.session.timeout.ms", None)
    alter_group(first, "consumer.heartbeat.interval.ms", None)
    catch_up(second)
    second.group_configs.follow("g")
    assert (second.group_configs.names, group_session(second)) == ([], 45_000)


def test_two_alterations_of_a_group_at_the_same_time_are_both_made() -> None:
    _, first, second = pair()

    async def both() -> None:
        await asyncio.gather(
            first.group_configs.alter("g", sets("consumer.session.timeout.ms", "46000")),
            second.group_configs.alter("g", sets("consumer.heartbeat.interval.ms", "6000")),
        )

    asyncio.run(both())

    assert len(config_records.read(known(second).image, metadata.group_config_key("g"))) == 2


# ---- topics


def test_two_alterations_of_a_topic_at_the_same_time_are_both_made() -> None:
    _, first, second = pair()
    topic = first.create("a")
    catch_up(second)
    other = asyncio.run(second.topics.follow("a"))
    assert other is not None

    async def both() -> None:
        await asyncio.gather(
            first.topics.alter_config(topic, sets("retention.ms", "77")),
            second.topics.alter_config(other, sets("segment.ms", "88")),
        )

    asyncio.run(both())
    catch_up(first)
    asyncio.run(first.topics.follow("a"))

    assert topic.config.overrides == {"retention.ms": "77", "segment.ms": "88"}


def test_an_alteration_of_a_topic_is_made_from_what_is_stored() -> None:
    _, first, second = pair()
    topic = first.create("a")
    catch_up(second)
    other = asyncio.run(second.topics.follow("a"))
    assert other is not None
    asyncio.run(first.topics.alter_config(topic, sets("retention.ms", "77")))

    catch_up(second)  # and it has not been followed
    asyncio.run(second.topics.alter_config(other, sets("segment.ms", "88")))

    assert other.config.overrides == {"retention.ms": "77", "segment.ms": "88"}


def test_the_same_topic_asked_for_at_two_brokers_is_one_topic() -> None:
    _, first, second = pair()

    async def both() -> list[Any]:
        found = await asyncio.gather(
            first.topics.get_or_create("a"), second.topics.get_or_create("a")
        )
        return list(found)

    one, other = asyncio.run(both())

    assert one.topic_id == other.topic_id


@pytest.mark.parametrize("turns", range(4))
def test_a_topic_that_appears_while_defaults_change_inherits_the_new_ones(turns: int) -> None:
    _, first, second = pair()
    first.create("old")
    catch_up(second)
    asyncio.run(second.topics.follow("old"))
    first.create("a")

    async def scenario() -> None:
        altering = asyncio.ensure_future(second.configs.alter("", sets(RETENTION, "77")))
        for _ in range(turns):
            await asyncio.sleep(0)
        catch_up(second)
        await second.topics.follow("a")
        await altering

    asyncio.run(scenario())

    assert (retention(second, "old"), retention(second)) == (77, 77)


# ---- the driver


class Watched:
    """What FollowingConfigs needs of ClusterMetadata."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Delta], None]] = []

    def when_changed(self, callback: Callable[[Delta], None]) -> None:
        self.callbacks.append(callback)


def test_changed_configurations_are_followed_without_being_asked() -> None:
    _, first, second = pair()
    service = FollowingConfigs(
        Watched(),  # type: ignore[arg-type]
        second.configs,
        second.group_configs,
    )
    known(second).callbacks.append(service._image_changed)

    async def scenario() -> None:
        following = asyncio.ensure_future(service.run())
        await first.configs.alter("", sets("max.connections", "5"))
        await first.group_configs.alter("g", sets("consumer.session.timeout.ms", "46000"))
        catch_up(second)
        assert group_session(second) == 46_000
        while second.config.integer("max.connections") != 5:
            await asyncio.sleep(0.001)
        following.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 60))

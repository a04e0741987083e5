"""Brokers and clusters as the admin clients of librdkafka and kafka-python see and alter them."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka.admin import KafkaAdminClient

from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.wire_client import WireClient

TIMEOUT_S = 60
OWN, DEFAULT = 2, 5  # config sources


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, 2)
    return topic


@pytest.fixture
def python_admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    yield admin
    admin.close()


def test_librdkafka_alters_a_broker_and_sees_the_source_of_the_value(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    admin = AdminClient({"bootstrap.servers": start_broker().address})
    entry = ConfigEntry("log.segment.bytes", "4096", incremental_operation=AlterConfigOpType.SET)
    altered = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    described = ConfigResource(ConfigResource.Type.BROKER, "1")

    [done] = admin.incremental_alter_configs([altered]).values()
    done.result(TIMEOUT_S)
    [found] = admin.describe_configs([described]).values()
    keys = found.result(TIMEOUT_S)

    segment = keys["log.segment.bytes"]
    assert (segment.value, segment.source, segment.is_read_only) == ("4096", OWN, False)
    assert [each.source for each in segment.synonyms.values()][-1] in {OWN, DEFAULT}
    assert keys["num.partitions"].is_read_only


def test_librdkafka_finds_every_leader_elected(broker: Broker, made: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})

    asked = [TopicPartition(made, 1), TopicPartition(made, 7)]
    found = admin.elect_leaders(ElectionType.PREFERRED, asked).result(TIMEOUT_S)

    codes = {each.partition: error.code() for each, error in found.items()}
    assert codes == {
        1: KafkaError.ELECTION_NOT_NEEDED,
        7: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_kafka_python_sees_the_cluster(python_admin: KafkaAdminClient, made: str) -> None:
    features = python_admin.describe_features()
    quorum = python_admin.describe_metadata_quorum()
    resources = python_admin.list_config_resources()

    assert features["metadata.version"]["finalized"] == (30, 30)
    [topic] = quorum["topics"]
    [partition] = topic["partitions"]
    assert (partition["leader_id"], partition["error"]) == (1, None)
    assert made in resources["topic"]
    assert resources["broker"] == ["1"]
    assert python_admin.list_partition_reassignments() == {}
    assert python_admin.describe_user_scram_credentials() == {}


def test_kafka_python_describes_partitions_page_by_page(
    python_admin: KafkaAdminClient, made: str
) -> None:
    page = python_admin.describe_topic_partitions([made], response_partition_limit=1)
    rest = python_admin.describe_topic_partitions([made], cursor=page["next_cursor"])

    indexes = [
        each["partitions"][0]["partition_index"] for each in (*page["topics"], *rest["topics"])
    ]
    assert indexes == [0, 1]
    assert rest["next_cursor"] is None

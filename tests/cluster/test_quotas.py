"""Quotas are of the whole cluster: what one broker is asked to alter is in force on every one."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support import quotas
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.wire_client import WireClient

LIMITED = {"client-id": "limited"}


@pytest.fixture
def unlimited_again(three_brokers: ClusterProcess) -> Iterator[None]:
    """Remove the quota after the test."""
    yield
    with WireClient(three_brokers.brokers[1].address) as client:
        quotas.alter(client, LIMITED, request_percentage=None)


def rests(cluster: ClusterProcess, broker_id: int) -> bool:
    """Return whether a broker makes the limited client rest."""
    with WireClient(cluster.brokers[broker_id].address, client_id="limited") as client:
        answers = [client.request("Metadata", 9, {"topics": None}) for _ in range(5)]
    return any(answer["throttle_time_ms"] for answer in answers)


@pytest.mark.slow("starts a cluster")
@pytest.mark.usefixtures("unlimited_again")
def test_a_quota_that_one_broker_is_given_is_in_force_on_every_broker(
    three_brokers: ClusterProcess,
) -> None:
    assert not any(rests(three_brokers, each) for each in three_brokers.brokers)

    with WireClient(three_brokers.brokers[1].address) as client:
        assert quotas.alter(client, LIMITED, request_percentage=0.001) == [0]

    for each in three_brokers.brokers:
        wait_until(partial(rests, three_brokers, each), f"broker {each} has the quota")
        with WireClient(three_brokers.brokers[each].address) as client:
            assert quotas.described(client) == {"client-id=limited": {"request_percentage": 0.001}}


def test_brokers_that_alter_one_entity_at_once_lose_nothing(three_brokers: ClusterProcess) -> None:
    keys = ("producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate")
    clients = [WireClient(each.address) for each in three_brokers.brokers.values()]
    for client, key in zip(clients, keys, strict=True):
        ops = [{"key": key, "value": 7.0, "remove": False}]
        entries = [{"entity": quotas.parts({"user": "u"}), "ops": ops}]
        client.send("AlterClientQuotas", 1, {"entries": entries, "validate_only": False})
    for client in clients:
        assert client.receive()["entries"][0]["error_code"] == 0

    def knows(client: WireClient) -> bool:
        return quotas.described(client) == {"user=u": dict.fromkeys(sorted(keys), 7.0)}

    for client in clients:
        wait_until(partial(knows, client), "all know it")
    assert quotas.alter(clients[0], {"user": "u"}, **dict.fromkeys(keys)) == [0]
    for client in clients:
        client.close()

"""Names of topics with a `=`, which Cursus's clients use: the other protocols serve such a topic.

Only Cursus's CREATE makes one.
"""

import json
from collections.abc import Callable

import pytest

from tests.support import wire_requests
from tests.support.batches import records_of
from tests.support.broker_process import BrokerProcess
from tests.support.cursus_client import CursusClient, read_batch
from tests.support.line_client import LineClient
from tests.support.native_log import records
from tests.support.rustlog_client import RefusedError, RustLogClient
from tests.support.wire_client import WireClient

INVALID_TOPIC = 17
NAMES = ("region=eu-1", "topic=x")


@pytest.mark.parametrize("name", NAMES)
def test_a_topic_with_an_equals_sign_is_served_by_all_protocols_and_after_a_restart(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    broker = start_broker()
    with CursusClient(broker.address) as cursus:
        created = cursus.ask(f"CREATE topic={name} partitions=1")
        assert created.startswith(f"OK topic={name} partitions=1 ")
        publish = f"PUBLISH topic={name} producerId=p message=cursus"
        assert json.loads(cursus.ask(publish))["status"] == "OK"
    with WireClient(broker.address) as kafka:
        wire_requests.produce(kafka, name, records())
    with LineClient(broker.address) as v1:
        assert v1.command(f"PRODUCE {name} k:v1") == "OK|partition=0 offset=2 hw=2"
        assert v1.command(f"JOIN v1-group {name} c").startswith("OK|generation=2 assigned=[0]")
        assert v1.command(f"COMMIT v1-group {name} c 2 0 1") == "OK|committed=true"
    with RustLogClient(broker.address) as rustlog:
        assert rustlog.produce(name, [b"rustlog"]) == 3

    broker.kill()
    broker.start()

    with WireClient(broker.address) as kafka:
        found = [value for _, _, _, value, _ in records_of(wire_requests.fetch(kafka, name, 0, 0))]
        assert len(found) == 4
        assert (found[0], *found[2:]) == (b"cursus", b"v1", b"rustlog")
    with LineClient(broker.address) as v1:
        assert v1.command(f"CONSUME {name} 0 3") == "OK|messages=3:rustlog hw=3"
        assert v1.command(f"OFFSET v1-group {name} 0") == "OK|offset=1"
    with RustLogClient(broker.address) as rustlog:
        assert rustlog.fetch(name, 2).records == [b"v1", b"rustlog"]
    with CursusClient(broker.address) as cursus:
        answer = cursus.answer(f"CONSUME topic={name} partition=0 offset=2")
        assert [each.payload for each in read_batch(answer).messages] == [b"v1", b"rustlog"]
        assert cursus.ask(f"LIST topic={name}") == f"OK topic={name} partitions=1"


def test_the_other_protocols_do_not_create_a_topic_with_an_equals_sign(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as kafka:
        body = {"name": "a=b", "num_partitions": 1, "replication_factor": 1}
        answer = kafka.request("CreateTopics", 5, {"topics": [body], "timeout_ms": 1_000})
        assert answer["topics"][0]["error_code"] == INVALID_TOPIC
        asked = {"topics": [{"name": "a=b"}], "allow_auto_topic_creation": True}
        assert kafka.request("Metadata", 8, asked)["topics"][0]["error_code"] == INVALID_TOPIC
    with LineClient(broker.address) as v1:
        assert v1.command("PRODUCE a=b k:v").startswith("ERR|BAD_REQUEST|invalid topic")
        assert v1.command("ADMIN_CREATE_TOPIC a=b 1 1").startswith("ERR|BAD_REQUEST|invalid topic")
    with RustLogClient(broker.address) as rustlog, pytest.raises(RefusedError):
        rustlog.create("a=b")

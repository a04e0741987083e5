"""One address that takes all the fetch sessions that it can get."""

from collections.abc import Callable

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

SESSIONS = 40
NONE, SESSION_NOT_FOUND = 0, 70


def begun(client: WireClient, topic: str) -> int:
    """Ask for a session; return its id, or 0."""
    body = wire_requests.fetch_body(topic, 0, 0, 1 << 20) | {"session_epoch": 0, "max_wait_ms": 0}
    answer = client.request("Fetch", 11, body)
    assert answer["error_code"] == NONE
    [partition] = answer["responses"][0]["partitions"]
    assert partition["records"], "one without a session is served, too"
    return int(answer["session_id"])


def continued(client: WireClient, session: int, epoch: int) -> int:
    """Ask again in a session; return the error."""
    body = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": []}
    body |= {"session_id": session, "session_epoch": epoch}
    return int(client.request("Fetch", 11, body)["error_code"])


def test_an_address_that_takes_all_fetch_sessions_gives_up_some_for_others(
    start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = start_broker(f"max.incremental.fetch.session.cache.slots={SESSIONS}")
    with (
        WireClient(broker.address, source="127.0.0.2") as greedy,
        WireClient(broker.address) as honest,
    ):
        wire_requests.create_topic(honest, topic)
        assert wire_requests.produce(honest, topic, Batch([b"a"]).encode()) == (NONE, 0)
        taken = [begun(greedy, topic) for _ in range(SESSIONS + 5)]
        assert [each > 0 for each in taken] == [True] * SESSIONS + [False] * 5

        mine = [begun(honest, topic) for _ in range(3)]
        more = [begun(greedy, topic) for _ in range(SESSIONS)]

        assert all(mine)
        assert not any(more)
        assert [continued(honest, each, 1) for each in mine] == [NONE] * len(mine)
        kept = [continued(greedy, each, 1) for each in taken[:SESSIONS]]
        assert kept == [SESSION_NOT_FOUND] * len(mine) + [NONE] * (SESSIONS - len(mine))

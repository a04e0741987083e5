"""The health checks: each page, its status and its bytes."""

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from broker.core.cluster_view import Alone, Leadership
from broker.core.health import Membership, Stage
from broker.core.maintenance.disk_space import Level
from broker.core.security.login import Login, LoginRules
from broker.core.topics.topic import Topic
from broker.protocols.base import Answer
from broker.protocols.http.dispatch import PROTOCOL
from broker.storage.directories import Directories
from tests.support.fakes import FakeBroker


def ask(broker: FakeBroker, head: str) -> str:
    answer = PROTOCOL().handle(0, 0, None, head.encode(), broker.session)
    assert isinstance(answer, Answer)
    assert answer.is_last, "the connection is closed after it"
    assert answer.body is not None
    return answer.body.decode()


def page(status: str, kind: str, text: str, *more: str, shown: str | None = None) -> str:
    head = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(text)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *more,
    ]
    return "\r\n".join([*head, "", text if shown is None else shown])


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        ("GET / HTTP/1.1\r\nHost: x", page("200 OK", "text/plain; charset=utf-8", "OK")),
        ("GET /health HTTP/1.0", page("200 OK", "text/plain; charset=utf-8", "OK")),
        ("GET /live HTTP/1.1", page("200 OK", "application/json", '{"status":"live"}')),
        ("GET /live?x=y HTTP/1.1", page("200 OK", "application/json", '{"status":"live"}')),
        ("GET /ready HTTP/1.1", page("200 OK", "application/json", '{"status":"ready"}')),
        (
            "HEAD /ready HTTP/1.1",
            page("200 OK", "application/json", '{"status":"ready"}', shown=""),
        ),
        (
            "GET /other HTTP/1.1",
            page("404 Not Found", "text/plain; charset=utf-8", "not found\n"),
        ),
        (
            "POST / HTTP/1.1",
            page(
                "405 Method Not Allowed",
                "text/plain; charset=utf-8",
                "GET or HEAD\n",
                "Allow: GET, HEAD",
            ),
        ),
        ("GET /", page("400 Bad Request", "text/plain; charset=utf-8", "bad request\n")),
        ("GET / FTP/1", page("400 Bad Request", "text/plain; charset=utf-8", "bad request\n")),
    ],
)
def test_a_health_check_is_answered(head: str, answer: str) -> None:
    assert ask(FakeBroker(), head) == answer


def reasons(answer: str) -> list[str]:
    body = json.loads(answer.partition("\r\n\r\n")[2])
    for each in body.get("reasons", ()):
        assert each["hint"]
    return [each["reason"] for each in body.get("reasons", ())]


def status(answer: str) -> int:
    return int(answer.split()[1])


def test_a_broker_whose_logs_are_loading_is_alive_and_not_ready() -> None:
    broker = FakeBroker()
    broker.create("t")
    broker.log("t").is_loading = True

    for path in ("/ready", "/health/ready", "/health/startup"):
        answer = ask(broker, f"GET {path} HTTP/1.1")
        assert (status(answer), reasons(answer)) == (503, ["logs_loading"])
    for path in ("/live", "/health/live"):
        assert status(ask(broker, f"GET {path} HTTP/1.1")) == 200


@pytest.mark.parametrize(
    ("stage", "membership", "found"),
    [
        (Stage.STARTING, Membership.ALONE, ["starting"]),
        (Stage.STOPPING, Membership.ALONE, ["stopping"]),
        (Stage.SERVING, Membership.JOINING, ["not_registered"]),
        (Stage.SERVING, Membership.FENCED, ["fenced"]),
        (Stage.STOPPING, Membership.LEAVING, ["stopping", "draining"]),
        (Stage.SERVING, Membership.JOINED, []),
    ],
)
def test_a_broker_is_ready_while_clients_may_use_it(
    stage: Stage, membership: Membership, found: list[str]
) -> None:
    broker = FakeBroker()
    broker.broker.health.stage = stage
    broker.broker.health.membership = lambda: membership

    answer = ask(broker, "GET /health/ready HTTP/1.1")

    assert (status(answer), reasons(answer)) == (503 if found else 200, found)


def test_a_broker_that_was_ready_once_has_started() -> None:
    broker = FakeBroker()
    health = broker.broker.health
    health.stage = Stage.STARTING
    assert status(ask(broker, "GET /health/startup HTTP/1.1")) == 503
    health.stage = Stage.SERVING
    assert status(ask(broker, "GET /health/startup HTTP/1.1")) == 200
    health.membership = lambda: Membership.FENCED
    assert status(ask(broker, "GET /health/startup HTTP/1.1")) == 200
    assert status(ask(broker, "GET /health/ready HTTP/1.1")) == 503


def test_who_has_not_logged_in_is_not_told_why_a_broker_is_not_ready() -> None:
    broker = FakeBroker()
    broker.session.login = Login(LoginRules({}))
    broker.broker.health.stage = Stage.STARTING

    for path, text in (
        ("/ready", "not_ready"),
        ("/health/ready", "not_ready"),
        ("/health/startup", "starting"),
    ):
        answer = ask(broker, f"GET {path} HTTP/1.1")
        assert status(answer) == 503
        assert answer.endswith(f'\r\n\r\n{{"status":"{text}"}}')

    broker.broker.health.stage = Stage.SERVING
    assert ask(broker, "GET /ready HTTP/1.1").endswith('\r\n\r\n{"status":"ready"}')
    assert ask(broker, "GET /health/startup HTTP/1.1").endswith('\r\n\r\n{"status":"started"}')


def cluster_page(broker: FakeBroker) -> tuple[int, dict[str, Any]]:
    async def answer() -> str:
        reply = PROTOCOL().handle(0, 0, None, b"GET /health/cluster HTTP/1.1", broker.session)
        assert isinstance(reply, Awaitable)
        found = await reply
        assert isinstance(found, Answer)
        assert found.body is not None
        return found.body.decode()

    text = asyncio.run(answer())
    told = json.loads(text.partition("\r\n\r\n")[2]).get("reasons", ())
    return status(text), {each["reason"]: each for each in told}


def test_directories_that_are_missing_or_have_failed_are_named(tmp_path: Path) -> None:
    broker = FakeBroker()
    directories = Directories(tmp_path, [tmp_path / "failed"], {tmp_path / "missing": "gone"})
    broker.session.broker = broker.broker._replace(more_directories=directories)
    directories.check([tmp_path / "failed" / "t-0"])

    code, told = cluster_page(broker)

    assert (code, list(told)) == (503, ["lost_directories"])
    examples = [f"{tmp_path}/failed", f"{tmp_path}/missing"]
    assert told["lost_directories"]["examples"] == examples
    assert status(ask(broker, "GET /ready HTTP/1.1")) == 200


def test_the_cluster_is_healthy_while_nothing_is_wrong() -> None:
    broker = FakeBroker()
    broker.create("t")
    assert cluster_page(broker) == (200, {})


class Replicated(Alone):
    """A cluster in which each partition has three replicas; those in sync are a test's."""

    def __init__(self) -> None:
        super().__init__(1, None)
        self.leader = 1
        self.isr: tuple[int, ...] = (1, 2, 3)

    def leadership(self, _topic: Topic, _partition: int) -> Leadership:
        return Leadership(self.leader, 0, (1, 2, 3, 4), self.isr, adding=(4,))


@pytest.mark.parametrize(
    ("leader", "isr", "found"),
    [
        (1, (1, 2, 3), []),
        (1, (1, 2, 4), []),
        (1, (1, 3), ["under_replicated_partitions"]),
        (1, (1,), ["under_min_isr_partitions", "under_replicated_partitions"]),
        (
            -1,
            (),
            ["offline_partitions", "under_min_isr_partitions", "under_replicated_partitions"],
        ),
    ],
)
def test_partitions_without_enough_replicas_are_counted(
    leader: int, isr: tuple[int, ...], found: list[str]
) -> None:
    cluster = Replicated()
    broker = FakeBroker(cluster=cluster)
    broker.create("t", partitions=2, config={"min.insync.replicas": "2"})
    cluster.leader, cluster.isr = leader, isr

    answered, told = cluster_page(broker)

    assert (answered, list(told)) == (503 if found else 200, found)
    assert all(each["count"] == 2 for each in told.values())
    assert all(each["examples"] == ["t-0", "t-1"] for each in told.values())


def test_an_altered_min_insync_replicas_is_seen_at_once() -> None:
    cluster = Replicated()
    broker = FakeBroker(cluster=cluster)
    broker.create("t", config={"min.insync.replicas": "1"})
    cluster.isr = (1,)
    assert list(cluster_page(broker)[1]) == ["under_replicated_partitions"]
    topic = broker.topics.get("t")
    assert topic is not None

    asyncio.run(broker.topics.alter_config(topic, lambda _: {"min.insync.replicas": "2"}))

    told = cluster_page(broker)[1]
    assert list(told) == ["under_min_isr_partitions", "under_replicated_partitions"]


def test_what_is_known_of_partitions_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Replicated()
    broker = FakeBroker(cluster=cluster)
    broker.create("t")
    asked: list[int] = []
    known = cluster.leadership

    def leadership(topic: Topic, partition: int) -> Leadership:
        asked.append(partition)
        return known(topic, partition)

    monkeypatch.setattr(cluster, "leadership", leadership)

    for _ in range(3):
        assert cluster_page(broker)[0] == 200

    assert asked == [0]


def test_a_full_disk_and_a_lost_store_are_told_with_what_to_do() -> None:
    broker = FakeBroker()
    broker.broker.health.disk_level = Level.TRIM
    broker.broker.health.is_store_reachable = lambda: False

    answered, told = cluster_page(broker)

    assert (answered, list(told)) == (503, ["disk_trim", "metadata_store_unreachable"])
    assert "retention" in told["disk_trim"]["hint"]

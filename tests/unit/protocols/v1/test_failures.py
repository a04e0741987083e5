"""V1's errors for failures on the broker's side."""

import asyncio

import pytest

from broker.core.groups.commands.assigned import AssignedError
from broker.model.errors import CodecError, ErrorCode, PeerError, RequestError, StorageError
from broker.protocols.v1 import errors
from broker.protocols.v1.dispatch import STORAGE_FAILURE
from broker.protocols.v1.errors import Code
from broker.protocols.v1.handlers import produce
from tests.unit.protocols.v1.v1_client import V1Client

NOT_LEADER = "ERR|NOT_LEADER|partition leader unavailable on this broker"
LOADING = f"{NOT_LEADER}: it is still loading"
FAILED = f"{NOT_LEADER}: its disk has failed or is full"
NO_COORDINATOR = "ERR|NOT_LEADER|group coordinator unavailable on this broker"
OF_PARTITION = (
    "PRODUCE t user1:v",
    "PRODUCE t user1:v acks=all",
    "CONSUME t 2 0",
    "REPLICA_FETCH t 2 1 0",
    "SET_PARTITION_ROLE t 2 follower",
)


@pytest.fixture
def client() -> V1Client:
    client = V1Client()
    client.fakes.create("t", 3)
    return client


@pytest.mark.parametrize("command", OF_PARTITION)
def test_a_loading_partition_returns_a_retriable_error(client: V1Client, command: str) -> None:
    client.fakes.log("t", 2).is_loading = True

    assert client.say(command) == LOADING


@pytest.mark.parametrize("command", OF_PARTITION)
def test_a_partition_with_a_failed_disk_returns_a_retriable_error(
    client: V1Client, command: str
) -> None:
    client.fakes.log("t", 2).is_offline = True

    assert client.say(command) == FAILED


def test_a_disk_that_fails_before_the_acknowledgement_is_reported(client: V1Client) -> None:
    log = client.fakes.log("t", 2)
    log.is_held = True

    async def fail_meanwhile() -> str:
        answer = asyncio.ensure_future(client.say_soon("PRODUCE t user1:v"))
        while not log.callback_count:
            await asyncio.sleep(0)
        log.fail()
        return await answer

    assert asyncio.run(fail_meanwhile()) == FAILED


def test_native_and_python_paths_report_a_failed_disk_alike() -> None:
    assert f"{FAILED}\n".encode() == STORAGE_FAILURE


@pytest.mark.parametrize("error", [StorageError("gone"), CodecError("damaged")])
def test_a_read_that_fails_on_the_disk_returns_a_retriable_error(
    client: V1Client, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.say("PRODUCE t user1:v")

    def fail(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(client.fakes.log("t", 2), "read", fail)

    assert client.say("CONSUME t 2 0") == FAILED


def test_a_topic_that_cannot_be_stored_is_not_created(client: V1Client) -> None:
    client.fakes.store.is_broken = True

    assert client.say("PRODUCE new user1:v") == f"{FAILED}: no space left on device"


def test_acks_all_waits_only_for_a_limited_time(
    client: V1Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "ACKS_ALL_TIMEOUT_SECONDS", 0.02)
    client.fakes.log("t", 2).is_held = True

    assert client.say("PRODUCE t user1:v acks=all") == "ERR|REPLICATION_TIMEOUT|acks=all timeout"


def test_a_topic_name_that_collides_is_refused(client: V1Client) -> None:
    client.say("PRODUCE a.b user1:v")

    assert client.say("PRODUCE a_b user1:v") == (
        "ERR|BAD_REQUEST|invalid topic: topic 'a_b' collides with existing topic 'a.b'"
    )


@pytest.mark.parametrize(
    "command", ["JOIN g t c", "SYNC g t c 1", "HEARTBEAT g t c 1", "LEAVE g t c 1"]
)
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (AssignedError.LOADING, f"{NO_COORDINATOR}: it is still loading"),
        (AssignedError.UNAVAILABLE, NO_COORDINATOR),
        (
            AssignedError.OTHER_PROTOCOL,
            "ERR|BAD_REQUEST|group has live members of another protocol",
        ),
        (AssignedError.STALE_GENERATION, "ERR|GENERATION_MISMATCH|stale generation"),
    ],
)
def test_a_refusal_by_a_group_has_its_error_text(
    client: V1Client, command: str, error: AssignedError, text: str
) -> None:
    client.groups.refuse(error)

    assert client.say(command) == text


@pytest.mark.parametrize("error", [each for each in AssignedError if each.value != "none"])
def test_every_group_error_has_an_error_text(error: AssignedError) -> None:
    assert errors.of_group(error).text


@pytest.mark.parametrize("code", [each for each in ErrorCode if each is not ErrorCode.NONE])
def test_every_core_error_has_an_error_line(code: ErrorCode) -> None:
    plain = errors.of_request(RequestError(code))
    said = errors.of_request(RequestError(code, "said\nof it"))

    assert plain.text
    assert said.text.endswith("said of it")
    assert said.code is plain.code


def test_retriable_errors_are_reported_as_not_leader() -> None:
    retriable = (
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    )  # fmt: skip

    assert {errors.of_request(RequestError(code)).code for code in retriable} == {Code.NOT_LEADER}


def test_a_loading_coordinator_cannot_return_offsets(client: V1Client) -> None:
    client.groups.refuse_offsets(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    assert client.say("OFFSET g t 0") == f"{NO_COORDINATOR}: it is still loading"


def test_an_invalid_group_has_no_committed_offset(client: V1Client) -> None:
    client.groups.refuse_offsets(ErrorCode.INVALID_GROUP_ID)

    assert client.say("OFFSET g t 0") == "OK|offset=0"


def test_without_the_offsets_topic_there_is_no_coordinator(client: V1Client) -> None:
    client.fakes.store.is_broken = True

    assert client.say("JOIN g t c") == f"{NO_COORDINATOR}: no space left on device"


def test_an_unexpected_exception_closes_the_connection(
    client: V1Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(client.fakes.log("t", 2), "read", fail)
    client.say("PRODUCE t user1:v")

    with pytest.raises(PeerError, match="CONSUME failed in the broker"):
        client.say("CONSUME t 2 0")
    assert "command failed: command=CONSUME" in caplog.text


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_an_internal_topic_is_not_created(client: V1Client, name: str) -> None:
    assert client.say(f"ADMIN_CREATE_TOPIC {name} 1 1") == (
        f"ERR|BAD_REQUEST|invalid topic: '{name}' belongs to the broker"
    )
    assert client.fakes.topics.get(name) is None

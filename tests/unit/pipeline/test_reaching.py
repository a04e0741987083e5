"""How jobs reach brokers: the timeouts of a job and of its tasks are the same."""

import pytest

from broker.client.security import SecuritySettings
from broker.model.errors import ConfigError
from broker.model.limits import CLIENT_GIVE_UP_SECONDS
from broker.pipeline.limits import SINK_GIVE_UP_MS
from broker.pipeline.options import Use
from broker.pipeline.reaching import cluster_of, options_of
from broker.pipeline.sink.options import SinkOptions
from broker.pipeline.source.settings import settings_of

BROKERS = "a:1,b:2"


def test_the_tasks_of_a_job_wait_for_each_answer_as_long_as_the_job() -> None:
    given = options_of(BROKERS, None, 2.5)

    source = settings_of(given | {"subscribe": "t"}, Use.READ)
    sink = SinkOptions.of(given | {"topic": "t"}, is_stream=False)

    assert str(source.cluster()) == str(sink.cluster()) == BROKERS
    assert (source.answer_seconds, source.give_up_seconds) == (2.5, 2.5)
    assert (sink.answer_ms, sink.give_up_ms) == (2_500, SINK_GIVE_UP_MS)
    assert cluster_of(BROKERS, None, 2.5).give_up_seconds == 2.5


def test_a_job_without_a_timeout_has_those_of_all_clients() -> None:
    given = options_of(BROKERS, None, None)

    source = settings_of(given | {"subscribe": "t"}, Use.READ)

    assert (source.answer_seconds, source.give_up_seconds) == (None, CLIENT_GIVE_UP_SECONDS)
    assert cluster_of(BROKERS, None, None).give_up_seconds == CLIENT_GIVE_UP_SECONDS


def test_the_tasks_of_a_job_log_in_as_the_job() -> None:
    security = SecuritySettings({"security.protocol": "PLAINTEXT"})

    given = options_of(BROKERS, security, 0.0001)

    assert settings_of(given | {"subscribe": "t"}, Use.READ).security == security
    assert given["kafka.request.timeout.ms"] == "1"


def test_an_invalid_address_is_an_error_at_once() -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        cluster_of("nowhere", None, None)

"""The settings of a session, without a JVM."""

import os

import pytest

from broker.model.errors import ConfigError
from broker.pipeline.session import session, settings_of


def test_a_local_session_shuffles_into_two_parts_per_core_and_listens_on_loopback() -> None:
    settings = settings_of(3, None)

    assert settings["spark.sql.shuffle.partitions"] == "6"
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"


def test_a_cluster_keeps_its_own_settings_except_for_the_time_zone() -> None:
    assert settings_of(None, None) == {"spark.sql.session.timeZone": "UTC"}


def test_an_explicit_number_of_shuffle_partitions_overrides_the_default() -> None:
    assert settings_of(2, 7)["spark.sql.shuffle.partitions"] == "7"


@pytest.mark.parametrize("master", ["", "locl[2]", "local[0]", "local[x]", "127.0.0.1:7077"])
def test_an_invalid_master_is_refused_before_anything_is_started(master: str) -> None:
    before = dict(os.environ)

    with pytest.raises(ConfigError, match="master"):
        session(master)

    assert dict(os.environ) == before


def test_a_shuffle_has_at_least_one_partition() -> None:
    with pytest.raises(ConfigError, match="shuffle_partitions: 0"):
        session("local[2]", shuffle_partitions=0)

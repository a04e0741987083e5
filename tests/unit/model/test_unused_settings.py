"""Names of settings that only Apache Kafka has."""

from broker.model.settings import BROKER_SETTINGS
from broker.model.unused_settings import UNUSED_SETTINGS, is_unused


def test_no_setting_of_this_broker_is_listed_as_unused() -> None:
    assert not UNUSED_SETTINGS & BROKER_SETTINGS.keys()


def test_settings_of_one_listener_are_unused_too() -> None:
    assert is_unused("listener.name.client.ssl.protocol")
    assert is_unused("background.threads")
    assert not is_unused("message.max.bytes")
    assert not is_unused("no.such.setting")

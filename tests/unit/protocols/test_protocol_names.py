"""The list of protocols: each of them is complete."""

import pytest

from broker._native.wire.connection import NativeProtocol
from broker.model.config import Config
from broker.model.protocol_names import PINNABLE, PROTOCOL_NAMES, WITH_LOGIN
from broker.protocols.base import WireProtocol
from broker.protocols.registry import PROTOCOLS


def test_the_list_of_protocols_matches_the_list_of_names() -> None:
    assert tuple(each.name for each in PROTOCOLS) == PROTOCOL_NAMES


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_a_protocol_creates_the_native_class_that_hands_requests_to_it(
    protocol: type[WireProtocol],
) -> None:
    served = protocol()
    native_protocol = served.native_protocol(Config())

    assert isinstance(native_protocol, NativeProtocol)
    assert native_protocol.fallback is served


def test_a_listener_can_be_limited_to_each_protocol_except_health_checks() -> None:
    assert set(PROTOCOL_NAMES) - set(PINNABLE) == {"http"}


def test_clients_can_log_in_with_the_protocols_that_have_a_gate() -> None:
    guarded = {each.name for each in PROTOCOLS if each().native_protocol(Config()).gate is not None}

    assert set(WITH_LOGIN) == guarded - {"http"}  # no listener is only for its pages

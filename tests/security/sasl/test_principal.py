"""Protocols without a login on a listener with one: a principal of the listener lets them in."""

from tests.support.cursus_client import CursusClient
from tests.support.line_client import LineClient
from tests.support.secured_broker import SecuredBroker

SETTINGS = ("listener.name.sasl_plaintext.polylog.principal=User:devices",)


def test_a_protocol_without_a_login_acts_for_the_principal_of_the_listener(
    broker: SecuredBroker,
) -> None:
    with LineClient(broker.address) as client:
        assert client.command("ADMIN_GET_METADATA").startswith("OK")


def test_a_protocol_with_a_login_still_asks_for_it(broker: SecuredBroker) -> None:
    with CursusClient(broker.address) as client:
        assert client.ask("LIST") == "ERROR: authentication_required command=LIST"

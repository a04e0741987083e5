"""OAUTHBEARER: what follows from a token that is not valid."""

from broker.core.security.sasl.oauthbearer import OAuthBearer
from broker.core.security.sasl.outcome import Challenge, Refused, Work

FIRST = b"n,,\x01auth=Bearer token\x01\x01"


def test_a_key_that_the_client_has_named_is_a_detail_of_the_reason() -> None:
    exchange = OAuthBearer(lambda _token, _now_ms: "unknown key: 'of the client'").begin()

    work = exchange.respond(FIRST, 0)
    assert isinstance(work, Work)
    assert work.run() == Challenge(b'{"status":"invalid_token"}')

    answer = exchange.respond(b"\x01", 0)
    assert answer == Refused("unknown key", '{"status":"invalid_token"}', detail="'of the client'")

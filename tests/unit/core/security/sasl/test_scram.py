"""SCRAM: RFC 5802 and RFC 7677, and what a server must refuse."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

import pytest

from broker.core.security.sasl.outcome import Challenge, Done, Refused, Work
from broker.core.security.sasl.scram import Scram, ScramExchange, ScramIdentity
from broker.model.scram import (
    MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    escaped,
    salted_password,
    unescaped,
)

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
SHA_512 = MECHANISMS["SCRAM-SHA-512"]
# The example of RFC 7677.
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(mechanism: ScramMechanism = SHA_256, password: str = "pencil") -> ScramCredential:
    salted = salted_password(mechanism, password, SALT, 4096)
    return credential_of(mechanism, salted, SALT, 4096)


class Begun:
    """An exchange, and what it has asked for."""

    def __init__(self, exchange: ScramExchange, asked: list[tuple[str, bool, int]]) -> None:
        self.respond: Any = exchange.respond
        self.asked = asked


def exchange(mechanism: ScramMechanism = SHA_256, **found: Any) -> Any:
    def find(user: str, is_token: bool, now_ms: int) -> ScramIdentity:
        asked.append((user, is_token, now_ms))
        return ScramIdentity(**{"user": user, "credential": credential(mechanism), **found})

    asked: list[tuple[str, bool, int]] = []
    begun = Scram(mechanism, find, lambda: SERVER_NONCE).begin()
    return Begun(begun, asked)


def final(
    server_first: bytes,
    first: str,
    *,
    password: str = "pencil",
    header: bytes = b"n,,",
    mechanism: ScramMechanism = SHA_256,
    nonce: str | None = None,
) -> bytes:
    """Return what a client answers, computed here from the RFC's formulas."""
    fields = dict(each.split("=", 1) for each in server_first.decode().split(","))
    digest = mechanism.digest
    salted = hashlib.pbkdf2_hmac(
        digest, password.encode(), b64decode(fields["s"]), int(fields["i"])
    )
    key = hmac.digest(salted, b"Client Key", digest)
    text = f"c={b64encode(header).decode()},r={nonce or fields['r']}"
    message = f"{first},{server_first.decode()},{text}".encode()
    signature = hmac.digest(hashlib.new(digest, key).digest(), message, digest)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{text},p={b64encode(proof).decode()}".encode()


def test_the_example_of_rfc_7677() -> None:
    login = exchange()

    assert login.respond(CLIENT_FIRST, 0) == Challenge(SERVER_FIRST)
    assert login.respond(CLIENT_FINAL, 0) == Done(SERVER_FINAL, "user")


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=list(MECHANISMS))
def test_each_mechanism_lets_in_who_knows_the_password(mechanism: ScramMechanism) -> None:
    login = exchange(mechanism)

    first = login.respond(CLIENT_FIRST, 0)
    answer = final(first.message, "n=user,r=rOprNGfwEbeRWgbNEkqO", mechanism=mechanism)

    assert isinstance(login.respond(answer, 0), Done)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=,r=abc",
        b"n,,r=abc",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=extension,n=user,r=abc",
        b"n,,n=us=41er,r=abc",
        b"n,,n=us\0er,r=abc",
        b"n,,n=user,r=a bc",
        b"n,,n=user,r=abc,tokenauth",
        b"\xff\xfe",
        b"n,,n=user,r=abc\n",
        CLIENT_FINAL,
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    assert isinstance(exchange().respond(message, 0), Refused)


def test_names_with_comma_and_equal_sign_are_escaped() -> None:
    login = exchange()

    login.respond(b"n,,n=a=2Cb=3Dc,r=abc", 7)

    assert login.asked == [("a,b=c", False, 7)]
    assert unescaped(escaped("a,b=c")) == "a,b=c"


def test_the_authorization_id_is_the_user() -> None:
    assert isinstance(exchange().respond(b"n,a=user,n=user,r=abc", 0), Challenge)
    refused = exchange().respond(b"n,a=root,n=user,r=abc", 0)
    assert isinstance(refused, Refused)
    assert "authorization id that is different" in str(refused.message)


@pytest.mark.parametrize("header", [b"n,a=user,", b"n,,"])
def test_the_final_message_repeats_the_header_of_the_first(header: bytes) -> None:
    login = exchange()
    first = login.respond(b"n,a=user,n=user,r=abc", 0)

    assert isinstance(login.respond(final(first.message, "n=user,r=abc", header=header), 0), Done)


@pytest.mark.parametrize("header", [b"y,,", b"n,a=root,", b"p=tls-unique,,"])
def test_another_header_in_the_final_message_is_refused(header: bytes) -> None:
    login = exchange()
    first = login.respond(b"n,,n=user,r=abc", 0)

    answer = login.respond(final(first.message, "n=user,r=abc", header=header), 0)

    assert isinstance(answer, Refused)


@pytest.mark.parametrize(
    "nonce", ["abc", SERVER_NONCE, "abd" + SERVER_NONCE, "abc" + SERVER_NONCE[:-1]]
)
def test_a_nonce_that_is_not_that_of_this_login_is_refused(nonce: str) -> None:
    """CVE-2024-56128: the proof is right for this nonce."""
    login = exchange()
    first = login.respond(b"n,,n=user,r=abc", 0)

    answer = login.respond(final(first.message, "n=user,r=abc", nonce=nonce), 0)

    assert isinstance(answer, Refused)
    assert answer.reason == "another nonce"


@pytest.mark.parametrize("bit", [0, 7, 100, 255])
def test_a_flipped_proof_is_refused(bit: int) -> None:
    login = exchange()
    login.respond(CLIENT_FIRST, 0)
    text, _, proof = CLIENT_FINAL.rpartition(b",p=")
    flipped = int.from_bytes(b64decode(proof), "big") ^ (1 << bit)
    message = text + b",p=" + b64encode(flipped.to_bytes(32, "big"))

    assert isinstance(login.respond(message, 0), Refused)


@pytest.mark.parametrize(
    "message", [b"", b"garbage", CLIENT_FINAL[:-3], CLIENT_FINAL + b",x=y", b"c=biws,r=a,p=!!"]
)
def test_a_malformed_final_message_is_refused(message: bytes) -> None:
    login = exchange()
    login.respond(CLIENT_FIRST, 0)

    assert isinstance(login.respond(message, 0), Refused)


def test_a_wrong_password_is_refused_without_saying_why() -> None:
    login = exchange()
    first = login.respond(b"n,,n=user,r=abc", 0)

    answer = login.respond(final(first.message, "n=user,r=abc", password="pencils"), 0)

    assert answer == Refused("wrong user or password", None, "user")


def test_nobody_logs_in_with_made_up_keys() -> None:
    login = exchange(is_known=False)
    first = login.respond(b"n,,n=user,r=abc", 0)

    answer = login.respond(final(first.message, "n=user,r=abc"), 0)

    assert answer == Refused("wrong user or password", None, "user")


def test_a_token_says_so_and_ends_with_it() -> None:
    login = exchange(user="alice", ends_ms=9, token_id="id")
    bare = "n=id,r=abc,tokenauth=true"
    first = login.respond(f"n,,{bare}".encode(), 5)

    assert login.asked == [("id", True, 5)]
    assert login.respond(final(first.message, bare), 5)[1:] == ("alice", 9, "id")


def test_keys_that_must_be_derived_first_are_work() -> None:
    identity = ScramIdentity("user", credential())
    login = Scram(SHA_256, lambda *_: lambda: identity, lambda: SERVER_NONCE).begin()

    work = login.respond(CLIENT_FIRST, 0)

    assert isinstance(work, Work)
    assert work.run() == Challenge(SERVER_FIRST)
    assert isinstance(login.respond(CLIENT_FINAL, 0), Done)

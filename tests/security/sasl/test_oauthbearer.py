"""OAUTHBEARER with a key set in a file, and tokens as attackers make them (RFC 8725)."""

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess, held_port
from tests.support.sasl_client import RefusedLoginError, SaslClient
from tests.support.secured_broker import SecuredBroker

hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
padding = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.padding")
jwk = pytest.importorskip("joserfc.jwk")
jws = pytest.importorskip("joserfc.jws")

NESTED = b'{"alg":' + b"[" * 9000
INVALID = b'{"status":"invalid_token"}'
RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
EC = jwk.ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
OTHER = jwk.RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
PUBLIC_PEM = RSA.as_pem(private=False)


def encoded(part: object) -> bytes:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(data).rstrip(b"=")


def claims(**changed: Any) -> dict[str, Any]:
    now = time.time()
    usual = {"sub": "alice", "aud": "kafka", "iss": "https://issuer", "iat": now, "exp": now + 300}
    return {name: value for name, value in (usual | changed).items() if value is not None}


def signed(payload: object, key: Any = RSA, algorithm: str = "RS256", **header: Any) -> str:
    head = {"alg": algorithm, "kid": key.kid} | header
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return jws.serialize_compact(
        {name: value for name, value in head.items() if value is not None},
        data,
        key,
        algorithms=[algorithm],
        registry=jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False),
    )


def forged(header: dict[str, Any], secret: bytes = b"") -> str:
    text = encoded(header) + b"." + encoded(claims())
    signature = hmac.digest(secret, text, "sha256") if secret else b""
    return (text + b"." + encoded(signature)).decode()


def signed_by_hand(header: dict[str, Any]) -> str:
    """Return a token that joserfc does not make, with a right signature."""
    text = encoded(header) + b"." + encoded(claims())
    signature = RSA.private_key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    return (text + b"." + encoded(signature)).decode()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    write_keys(file, RSA, EC)
    return file


def write_keys(file: Path, *found: Any) -> None:
    public = [each.as_dict(private=False) for each in found]
    secret = {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}
    file.write_text(json.dumps({"keys": [*public, secret]}))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[BrokerProcess]:
    holder, port = held_port()
    del holder
    settings = (
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}",
        "sasl.oauthbearer.expected.audience=other,kafka",
        "sasl.oauthbearer.expected.issuer=https://issuer",
        "sasl.oauthbearer.clock.skew.seconds=0",
        (
            "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
    )
    broker = BrokerProcess(
        tmp_path_factory.mktemp("oauth"),
        settings=settings,
        listen=f"SASL_PLAINTEXT://127.0.0.1:{port}",
    )
    broker.start()
    yield broker
    broker.check()
    broker.stop()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[SaslClient]:
    with SaslClient(broker.address, 20.0) as client:
        assert client.choose("OAUTHBEARER")["error_code"] == 0
        yield client


def first(token: str, *, header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01{more}\x01".encode()


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "RS512"), (RSA, "PS256"), (EC, "ES256")]
)
def test_a_signed_token_logs_in_until_it_expires(
    client: SaslClient, key: Any, algorithm: str
) -> None:
    answer = client.token(first(signed(claims(), key, algorithm)))

    assert answer["auth_bytes"] == b""
    assert 250_000 < answer["session_lifetime_ms"] <= 300_000
    assert client.is_open()


@pytest.mark.parametrize(
    "made",  # when the test runs: a token expires after some minutes
    [
        lambda: signed(claims(aud=["x", "kafka"])),
        lambda: signed(claims(), kid=None),
        lambda: signed(claims(), typ="at+jwt", x5t="thumbprint"),
        lambda: signed(claims(nbf=time.time() - 5)),
    ],
    ids=["audiences", "no key id", "other header fields", "not before"],
)
def test_what_authorization_servers_write_is_taken(
    client: SaslClient, made: Callable[[], str]
) -> None:
    assert client.token(first(made()))["auth_bytes"] == b""


def test_the_authorization_id_is_the_subject(client: SaslClient) -> None:
    token = signed(claims())

    assert client.token(first(token, header="n,a=alice,", more="x=y\x01"))["auth_bytes"] == b""


def test_another_authorization_id_is_refused(client: SaslClient) -> None:
    with pytest.raises(RefusedLoginError) as refused:
        client.token(first(signed(claims()), header="n,a=root,"))

    assert "authorization id (root) that is different" in str(refused.value.message)


BAD: dict[str, Callable[[], str]] = {
    "expired": lambda: signed(claims(exp=time.time() - 1)),
    "not valid yet": lambda: signed(claims(nbf=time.time() + 100)),
    "no expiry": lambda: signed(claims(exp=None)),
    "no time of issue": lambda: signed(claims(iat=None)),
    "expiry is a text": lambda: signed(claims(exp="9999999999")),
    "expiry is true": lambda: signed(claims(exp=True)),
    "infinite expiry": lambda: signed(
        b'{"sub":"alice","aud":"kafka","iss":"https://issuer","iat":1,"exp":1e999}'
    ),
    "expiry is too large for a float": lambda: signed(claims(exp=10**400)),
    "another audience": lambda: signed(claims(aud="else")),
    "no audience": lambda: signed(claims(aud=None)),
    "another issuer": lambda: signed(claims(iss="https://other")),
    "empty subject": lambda: signed(claims(sub="")),
    "blank subject": lambda: signed(claims(sub=" ")),
    "subject is a number": lambda: signed(claims(sub=7)),
    "subject is half a character": lambda: signed(claims(sub="al\ud800ice")),
    "no subject": lambda: signed(claims(sub=None)),
    "no signature": lambda: forged({"alg": "none"}),
    "none in other letters": lambda: forged({"alg": "nOnE", "kid": "rsa"}),
    "the public key as a secret": lambda: forged({"alg": "HS256", "kid": "rsa"}, PUBLIC_PEM),
    "the secret of the set": lambda: forged({"alg": "HS256", "kid": "secret"}, b"secret"),
    "another key": lambda: signed(claims(), OTHER),
    "another key without an id": lambda: signed(claims(), OTHER, kid=None),
    "a key id that is a path": lambda: signed(claims(), kid="../../etc/passwd"),
    "a key in the header": lambda: signed(
        claims(), OTHER, kid=None, jwk=OTHER.as_dict(private=False)
    ),
    "an address of keys": lambda: signed(claims(), OTHER, jku="http://127.0.0.1:1/keys"),
    "a critical field": lambda: signed_by_hand(
        {"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}
    ),
    "changed claims": lambda: ".".join(
        (
            signed(claims()).split(".")[0],
            encoded(claims(sub="root")).decode(),
            signed(claims()).split(".")[2],
        )
    ),
    "claims are a list": lambda: signed([claims()]),
    "claims are no JSON": lambda: signed(b"sub=alice"),
    "nested claims": lambda: signed(b"[" * 9000),
    "nested header": lambda: f"{encoded(NESTED).decode()}.e30.e30",
    "two parts": lambda: ".".join(signed(claims()).split(".")[:2]),
    "five parts": lambda: "e30.e30.e30.e30.e30",
    "no token": lambda: "x",
    "dots": lambda: "..",
    "a long token": lambda: "e30." + "A" * 16_000 + ".e30",
    "a long header": lambda: encoded({"alg": "RS256", "x": "y" * 4000}).decode() + ".e30.e30",
}


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_token_is_answered_twice_and_the_connection_ends(
    client: SaslClient, name: str
) -> None:
    answer = client.token(first(BAD[name]()))
    assert answer["auth_bytes"] == INVALID
    assert answer["session_lifetime_ms"] == 0

    with pytest.raises(RefusedLoginError) as refused:
        client.token(b"\x01")

    assert (refused.value.code, refused.value.message) == (58, INVALID.decode())
    client.expect_closed()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic YWxpY2U6eA==\x01\x01",
        b"n,,\x01x=y\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"\xff\x01auth=Bearer x\x01\x01",
        b"n,,\x01" + b"x=y\x01" * 4000 + b"\x01",
    ],
)
def test_a_malformed_first_message_is_refused_at_once(client: SaslClient, message: bytes) -> None:
    with pytest.raises(RefusedLoginError) as refused:
        client.token(message)

    assert refused.value.code == 58
    client.expect_closed()


def test_a_token_of_a_new_key_makes_the_broker_read_the_keys_again(
    broker: SecuredBroker, keys: Path
) -> None:
    new = jwk.ECKey.generate_key("P-384", {"kid": "new"}, private=True)
    write_keys(keys, RSA, EC, new)
    until = time.monotonic() + 30

    while True:  # they are read again at a limited rate
        with SaslClient(broker.address, 20.0) as client:
            client.choose("OAUTHBEARER")
            if client.token(first(signed(claims(), new, "ES384")))["auth_bytes"] == b"":
                return
        assert time.monotonic() < until
        time.sleep(0.5)

"""The client's side of SASL against servers that follow the RFCs, and hostile ones."""

from pathlib import Path

import pytest

from broker.client.sasl import Credentials, login
from broker.client.secured import parse_secured
from broker.client.security import read_security
from broker.model.errors import ConfigError, PeerError

NONCE = "rOprNGfwEbeRWgbNEkqO"
ALICE = Credentials("SCRAM-SHA-256", "user", "pencil")
# The example of RFC 7677.
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_rfc_7677() -> None:
    steps = login(ALICE, lambda: NONCE)

    assert steps.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert steps.answer(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert steps.answer(SERVER_FINAL) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=!,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000000",
    ],
)
def test_a_server_that_does_not_follow_the_mechanism_is_refused(message: bytes) -> None:
    steps = login(ALICE, lambda: NONCE)
    steps.first()

    with pytest.raises(PeerError):
        steps.answer(message)


@pytest.mark.parametrize("message", [b"", b"v=", b"v=" + SERVER_FINAL[3:], b"e=other-error"])
def test_a_server_that_does_not_know_the_password_is_refused(message: bytes) -> None:
    steps = login(ALICE, lambda: NONCE)
    steps.first()
    steps.answer(SERVER_FIRST)

    with pytest.raises(PeerError):
        steps.answer(message)


def test_a_token_says_so_and_names_are_escaped() -> None:
    steps = login(Credentials("SCRAM-SHA-512", "a,b=c", "x", is_token=True), lambda: "n")

    assert steps.first() == b"n,,n=a=2Cb=3Dc,r=n,tokenauth=true"


def test_plain_is_one_message() -> None:
    steps = login(Credentials("PLAIN", "user", "pencil"))

    assert steps.first() == b"\0user\0pencil"
    assert steps.answer(b"") is None


def test_a_password_is_not_shown() -> None:
    assert "pencil" not in repr(ALICE)


def test_a_file_of_kafka_s_settings_is_read(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\n\n  security.protocol = SASL_PLAINTEXT\nsasl.mechanism:PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '    username="a" password="b;c";\n'
    )

    assert read_security(file).secured().credentials == Credentials("PLAIN", "a", "b;c")


@pytest.mark.parametrize(
    "changed",
    [
        {"security.protocol": "SASL"},
        {"sasl.mechanism": "GSSAPI"},
        {"sasl.jaas.config": "secret"},
        {"sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required;"},
        {"security.protocol": "SSL", "ssl.truststore.location": "secret.jks"},
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": "/none.pem",
            "ssl.truststore.type": "PEM",
        },
    ],
)
def test_settings_that_cannot_be_used_are_refused(changed: dict[str, str]) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}

    with pytest.raises(ConfigError) as refused:
        parse_secured(properties | changed)

    assert "secret" not in str(refused.value)

"""What is read of certificates, compared with another parser."""

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from broker.core.tls.certificates import parse_certificate
from broker.model.errors import Corrupt
from tests.support.authority import Authority, Name

ORDERED: Name = [("O", "Acceptance"), ("OU", "ServiceUsers"), ("CN", "App1")]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def der_of(path: Path) -> bytes:
    pem = path.read_text()
    return ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (ORDERED, "CN=App1,OU=ServiceUsers,O=Acceptance"),
        ([("CN", 'a,b+c"d\\e<f>g;h')], 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        ([("CN", "#a "), ("O", " b")], "O=\\ b,CN=\\#a\\ "),
        ([("C", "CH"), ("CN", "Zürich")], "CN=Zürich,C=CH"),
        ([("E", "a@b"), ("CN", "x")], "CN=x,1.2.840.113549.1.9.1=#1603614062"),
        ([("UID", "me")], "UID=me"),
    ],
)
def test_a_subject_is_written_as_java_writes_it(
    authority: Authority, subject: Name, name: str
) -> None:
    certificate = parse_certificate(der_of(authority.key_store("one", subject=subject)))

    assert certificate.subject == name


def test_the_end_and_the_alternative_names_are_those_of_another_parser(
    authority: Authority,
) -> None:
    path = authority.key_store("two", ["one.example", "10.1.2.3"], days=20_000)
    found = parse_certificate(der_of(path))
    other = x509.load_der_x509_certificate(der_of(path))

    assert found.expires - other.not_valid_after_utc < timedelta(seconds=1)
    names = other.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(found.alternative_names) == len(names)
    assert b"\x82\x0bone.example" in found.alternative_names
    assert parse_certificate(other.public_bytes(Encoding.DER)) == found


def test_a_certificate_that_is_cut_or_changed_anywhere_is_corrupt_or_another_one(
    authority: Authority,
) -> None:
    der = der_of(authority.key_store("three", subject=ORDERED))

    for end in range(len(der)):
        with pytest.raises(Corrupt):
            parse_certificate(der[:end])
    for at in range(len(der)):
        for bit in (1, 0x80, 0xFF):
            changed = bytearray(der)
            changed[at] ^= bit
            try:
                parse_certificate(bytes(changed))
            except Corrupt:
                continue


def test_a_very_long_subject_is_refused(authority: Authority) -> None:
    subject: Name = [("OU", "x" * 60)] * 100

    with pytest.raises(Corrupt, match="characters"):
        parse_certificate(der_of(authority.key_store("long", subject=subject)))

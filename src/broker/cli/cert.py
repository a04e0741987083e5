"""`broker cert`: an authority and certificates for development and small installations.

    DIR/ca.pem, DIR/ca-key.pem    the authority; ca.pem is the trust store of brokers and clients
    DIR/NAME.pem                  a key, its certificate and nothing else: a key store (PEM)

Keys are on the curve P-256: a handshake costs a tenth of one with RSA. A file that exists is never
replaced, and only its owner may read it.
"""

import argparse
import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.reporting import Parser
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_CA_DAYS = 3650
_DAYS = 365
_DAYS_MAX = 36_500
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_NAME_CHARS_MAX = 64  # RFC 5280: of a common name


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    parser = Parser(prog="broker cert")
    commands = parser.add_commands()
    ca = commands.add_parser(
        "ca",
        help="make an authority",
        description="Make an authority: DIR/ca.pem, which brokers and clients trust, and"
        " DIR/ca-key.pem, which is needed only to make certificates.",
    )
    ca.add_argument("--name", default="Polylog CA", help="its name (default: Polylog CA)")
    server = commands.add_parser(
        "server",
        help="make the key and certificate of a broker",
        description="Make DIR/NAME.pem, the key store of a broker, with the authority in DIR.",
    )
    server.add_argument(
        "--host",
        action="append",
        required=True,
        help="a host name or address that clients and other brokers connect to, localhost for all"
        " of this machine; may be repeated",
    )
    server.add_argument(
        "--name", default="server", help="of the file and the certificate (default: server)"
    )
    client = commands.add_parser(
        "client",
        help="make the key and certificate of a client",
        description="Make DIR/NAME.pem, the key store of a client that is then User:CN=NAME.",
    )
    client.add_argument("--name", required=True, help="of the file and the certificate")
    for command, days in ((ca, _CA_DAYS), (server, _DAYS), (client, _DAYS)):
        command.add_argument("directory", type=Path, metavar="DIR", help="directory of the files")
        command.add_argument(
            "--days", type=int, default=days, help=f"how long it is valid (default: {days})"
        )
    return _run(parser.parse_args(arguments))


def _run(parsed: argparse.Namespace) -> int:
    if not 0 < parsed.days <= _DAYS_MAX:
        raise ConfigError(f"--days {parsed.days}: allowed is 1 .. {_DAYS_MAX}")
    if not 0 < len(parsed.name) <= _NAME_CHARS_MAX:
        raise ConfigError(f"--name: allowed are 1 to {_NAME_CHARS_MAX} characters")
    try:
        import cryptography.x509  # noqa: F401, PLC0415 - of the extra tls
    except ImportError:
        raise ConfigError(
            "broker cert needs the extra tls: pip install 'polylog-broker[tls]'"
        ) from None
    before = os.umask(0o077)
    try:
        parsed.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        match parsed.command:
            case "ca":
                made = _make_ca(parsed.directory, parsed.name, parsed.days)
            case "server":
                made = _make(parsed.directory, parsed.name, parsed.days, parsed.host)
            case _:
                made = _make(parsed.directory, parsed.name, parsed.days, [])
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None
    finally:
        os.umask(before)
    print(*made, sep="\n")
    return 0


def _make_ca(directory: Path, name: str, days: int) -> list[Path]:
    from cryptography import x509  # noqa: PLC0415 - of the extra tls
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - of the extra tls

    key = _new_key()
    certificate = (
        _begun(name, _named(name), key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_ca=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "ca-key.pem", directory / "ca.pem"
    _write(files[0], _key_pem(key))
    _write(files[1], _pem(certificate))
    return list(files)


def _make(directory: Path, name: str, days: int, hosts: Sequence[str]) -> list[Path]:
    from cryptography import x509  # noqa: PLC0415 - of the extra tls
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - of the extra tls

    if not _FILE_NAME.fullmatch(name):
        raise ConfigError(f"--name {name!r}: allowed are letters, digits, dots, @, - and _")
    ca_key, ca = _read_ca(directory)
    key = _new_key()
    usage = x509.oid.ExtendedKeyUsageOID
    # Brokers are clients of each other, with the same key.
    purposes = [usage.CLIENT_AUTH, *([usage.SERVER_AUTH] if hosts else [])]
    builder = (
        _begun(name, ca.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(each) for each in _with_loopback(hosts)])
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(ca_key, hashes.SHA256())
    file = directory / f"{name}.pem"
    _write(file, _key_pem(key) + _pem(certificate))
    return [file]


def _begun(
    name: str, issuer: "x509.Name", key: "EllipticCurvePrivateKey", days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509  # noqa: PLC0415 - of the extra tls

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> "x509.Name":
    from cryptography import x509  # noqa: PLC0415 - of the extra tls

    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])


def _usage(*, is_ca: bool) -> "x509.KeyUsage":
    from cryptography import x509  # noqa: PLC0415 - of the extra tls

    return x509.KeyUsage(
        digital_signature=not is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


def _with_loopback(hosts: Sequence[str]) -> Sequence[str]:
    """Return hosts, for localhost also its addresses: clients are told to connect to those."""
    loopback = ("127.0.0.1", "::1") if "localhost" in hosts else ()
    return tuple(dict.fromkeys((*hosts, *loopback)))


def _host(text: str) -> "x509.GeneralName":
    from cryptography import x509  # noqa: PLC0415 - of the extra tls

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError:
        raise ConfigError(f"--host {text!r}: neither an address nor a host name") from None


def _new_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - of the extra tls

    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - of the extra tls

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,  # the only one that Java reads
        serialization.NoEncryption(),
    )


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - of the extra tls

    return certificate.public_bytes(serialization.Encoding.PEM)


def _read_ca(directory: Path) -> "tuple[EllipticCurvePrivateKey, x509.Certificate]":
    from cryptography import x509  # noqa: PLC0415 - of the extra tls
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - of the extra tls
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - of the extra tls

    if not (directory / "ca-key.pem").exists():
        raise ConfigError(f"there is no authority in {directory}: broker cert ca {directory}")
    try:
        key = serialization.load_pem_private_key((directory / "ca-key.pem").read_bytes(), None)
        ca = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
    except (ValueError, TypeError):
        raise ConfigError(f"the authority in {directory} is damaged") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"the authority in {directory} is not of `broker cert ca`")
    return key, ca


def _write(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read."""
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise ConfigError(f"{path} exists, and is not replaced") from None

"""What `broker cert` makes.

    DIR/ca.pem, DIR/ca-key.pem    the authority; ca.pem is the trust store of brokers and clients
    DIR/NAME.pem                  a key, its certificate and nothing else: a key store (PEM)

Keys are on the curve P-256: a handshake costs a tenth of one with RSA. A file that exists is never
replaced, and only its owner may read it.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from broker.model.errors import ConfigError, ErrorCode, RequestError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_DAYS: Final = 3650
DAYS: Final = 365
_DAYS_MAX = 36_500
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_NAME_CHARS_MAX = 64  # RFC 5280: of a common name


class CertFile(NamedTuple):
    """A file that was made.

    Attributes:
        file: its path.
        name: of the certificate.
        days: how long it is valid.
    """

    file: str
    name: str
    days: int


def common_options(days: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds DIR and --days."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        with_days = click.option(
            "--days",
            type=click.IntRange(1, _DAYS_MAX),
            default=days,
            metavar="N",
            help=f"How long it is valid (default: {days}).",
        )(function)
        return click.argument(
            "directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR"
        )(with_days)

    return decorate


@contextmanager
def private_files(directory: Path, name: str) -> Iterator[None]:
    """Let files be made in a directory, which is made with it, for their owner only.

    Raises:
        ConfigError: the name is invalid, a package is missing, or a file cannot be read or written.
    """
    if not 0 < len(name) <= _NAME_CHARS_MAX:
        raise ConfigError(f"--name: allowed are 1 to {_NAME_CHARS_MAX} characters")
    try:
        import cryptography.x509  # noqa: F401, PLC0415 - of the extra tls
    except ImportError:
        raise ConfigError(
            "broker cert needs the extra tls: pip install 'polylog-broker[tls]'"
        ) from None
    before = os.umask(0o077)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None
    finally:
        os.umask(before)


def make_ca(directory: Path, name: str, days: int) -> list[Path]:
    """Make the files of an authority, the one with its key first."""
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


def make(directory: Path, name: str, days: int, hosts: Sequence[str]) -> list[Path]:
    """Make the key store of a broker for hosts, or without hosts of a client."""
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
        raise RequestError(
            ErrorCode.DUPLICATE_RESOURCE, f"{path} exists, and is not replaced"
        ) from None

"""Key stores, trust stores and revocation lists, in a file or in the configuration itself.

Stores are PEM or PKCS12. Java's keytool has written PKCS12 since Java 9, and Java reads such a
store as one of type JKS, too, which is Kafka's default: unless a store is said to be PKCS12, its
first bytes tell what it is. A store is read as a whole, once: what is checked is what OpenSSL gets,
whatever happens to the file meanwhile. OpenSSL takes keys from files only, so it is given one that
has no name (memfd).
"""

import os
import re
import ssl
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from broker.core.tls.certificates import (
    Certificate,
    RevocationList,
    parse_certificate,
    parse_revocation_list,
)
from broker.model.config import Values
from broker.model.errors import CodecError, ConfigError
from broker.model.secret_file import read_certificate_file, read_secret_file

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_REVOKED = re.compile(r"-----BEGIN X509 CRL-----(.+?)-----END X509 CRL-----", re.DOTALL)
_DER_SEQUENCE = b"\x30"  # a PKCS12 store begins with it, and no PEM file
_JKS = b"\xfe\xed\xfe\xed"
_TENTH = 10
_KEY = re.compile(r"-----BEGIN (?:[A-Z]+ )?(?:ENCRYPTED )?PRIVATE KEY-----")


class KeyStore(NamedTuple):
    """A private key and the certificates that go with it, as PEM."""

    origin: str  # the setting, and the file if there is one
    pem: str
    password: str | None
    certificate: Certificate

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let a context use it; ConfigError if the key is damaged, encrypted, or another one's."""
        password = self.password or ""
        try:
            with _nameless(self.pem) as path:
                # Without a password OpenSSL would ask the terminal for one.
                context.load_cert_chain(path, password=lambda: password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigError(
                f"{self.origin}: the private key is not usable: {_reason(error)}"
            ) from None


class TrustStore(NamedTuple):
    """Certificates of authorities, as PEM."""

    origin: str
    pem: str

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let a context trust them; ConfigError if one is damaged."""
        try:
            context.load_verify_locations(cadata=self.pem)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{self.origin}: not certificates: {_reason(error)}") from None


class RevocationLists(NamedTuple):
    """Lists of revoked certificates, as PEM."""

    origin: str
    location: str
    pem: str
    heads: tuple[RevocationList, ...]

    def renewal_due(self, now: datetime) -> datetime | None:
        """Return when the first list ends that has a tenth of its time left, or less."""
        return min(
            (
                each.expires
                for each in self.heads
                if each.expires is not None
                and (each.expires - now) * _TENTH < each.expires - each.issued
            ),
            default=None,
        )

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let a context refuse what they name, and what no list in force is about.

        ConfigError if one is damaged.
        """
        try:
            with _nameless(self.pem) as path:
                context.load_verify_locations(path)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"{self.origin}: not revocation lists: {_reason(error)}") from None
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def read_key_store(settings: Values, where: str) -> KeyStore:
    """Read the key store that settings name; `where` is what they are of, for messages."""
    location = settings.text_or_none("ssl.keystore.location")
    password = settings.text_or_none("ssl.key.password")
    if location is not None:
        origin = f"{where}: ssl.keystore.location={location}"
        data = read_secret_file(Path(location), f"{where}: ssl.keystore.location")
        if _is_pkcs12(settings.text("ssl.keystore.type"), data, origin):
            pem = _from_pkcs12(data, settings.text_or_none("ssl.keystore.password"), origin)
            return _key_store(origin, pem, None)
        return _key_store(origin, _text(data, origin), password)
    key = settings.text_or_none("ssl.keystore.key")
    chain = settings.text_or_none("ssl.keystore.certificate.chain")
    if key is None or chain is None:
        raise ConfigError(
            f"{where}: TLS needs a key and a certificate: set ssl.keystore.location to a PEM file"
            " with both, or ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    return _key_store(f"{where}: ssl.keystore.key", f"{_lines(key)}\n{_lines(chain)}\n", password)


def read_trust_store(settings: Values, where: str) -> TrustStore | None:
    """Read the trust store that settings name; None: they name none."""
    location = settings.text_or_none("ssl.truststore.location")
    if location is not None:
        origin = f"{where}: ssl.truststore.location={location}"
        data = read_certificate_file(Path(location), f"{where}: ssl.truststore.location")
        if _is_pkcs12(settings.text("ssl.truststore.type"), data, origin):
            pem = _from_pkcs12(data, settings.text_or_none("ssl.truststore.password"), origin)
            return _trust_store(origin, pem)
        return _trust_store(origin, _text(data, origin))
    given = settings.text_or_none("ssl.truststore.certificates")
    origin = f"{where}: ssl.truststore.certificates"
    return None if given is None else _trust_store(origin, _lines(given))


def read_revocation_lists(settings: Values, where: str) -> RevocationLists | None:
    """Read the revocation lists that settings name; None: they name none."""
    location = settings.text_or_none("polylog.ssl.crl.location")
    if location is None:
        return None
    origin = f"{where}: polylog.ssl.crl.location={location}"
    data = read_certificate_file(Path(location), f"{where}: polylog.ssl.crl.location")
    found = [*_REVOKED.finditer(_text(data, origin))]
    if not found:
        raise ConfigError(f"{origin}: there is no revocation list in it (PEM)")
    try:
        heads = tuple(parse_revocation_list(b64decode(each[1])) for each in found)
    except (CodecError, ValueError) as error:
        raise ConfigError(f"{origin}: a revocation list is damaged: {error}") from None
    # Not the whole file: certificates in it would be trusted.
    return RevocationLists(origin, location, "".join(f"{each.group()}\n" for each in found), heads)


def _is_pkcs12(kind: str, data: bytes, origin: str) -> bool:
    if data.startswith(_JKS):
        raise ConfigError(
            f"{origin}: it has Java's old format, JKS; convert it: keytool -importkeystore"
            " -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
        )
    return kind == "PKCS12" or data.startswith(_DER_SEQUENCE)


def _key_store(origin: str, pem: str, password: str | None) -> KeyStore:
    found = _CERTIFICATE.search(pem)
    if found is None or not _KEY.search(pem):
        missing = "certificate" if found is None else "private key"
        raise ConfigError(f"{origin}: there is no {missing} in it (PEM)")
    try:
        certificate = parse_certificate(ssl.PEM_cert_to_DER_cert(found.group()))
    except (CodecError, ValueError) as error:
        raise ConfigError(f"{origin}: its certificate is damaged: {error}") from None
    return KeyStore(origin, pem, password, certificate)


def _trust_store(origin: str, pem: str) -> TrustStore:
    certificates = _CERTIFICATE.findall(pem)
    if not certificates:
        raise ConfigError(f"{origin}: there is no certificate in it (PEM)")
    return TrustStore(origin, "\n".join(certificates))


def _lines(pem: str) -> str:
    r"""Return PEM given in one line, as properties files have it, with its lines again."""
    text = pem.replace("\\n", "\n")
    if "\n" in text.strip():
        return text
    return re.sub(r"(-----BEGIN [A-Z ]+-----)\s*(.+?)\s*(-----END [A-Z ]+-----)", _split, text)


def _split(found: re.Match[str]) -> str:
    begin, body, end = found.groups()
    body = "".join(body.split())
    return "\n".join((begin, *(body[at : at + 64] for at in range(0, len(body), 64)), end, ""))


def _text(data: bytes, origin: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{origin}: it is neither PEM nor PKCS12") from None


def _from_pkcs12(data: bytes, password: str | None, origin: str) -> str:
    """Return the key, without encryption, and all certificates of a PKCS12 store."""
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - of the extra tls
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            f"{origin}: PKCS12 needs the extra tls: pip install 'polylog-broker[tls]'"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise ConfigError(f"{origin}: not a PKCS12 store, or another password") from None
    encoding = serialization.Encoding.PEM
    parts = []
    if store.key is not None:
        plain = serialization.NoEncryption()
        parts.append(store.key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    certificates = ([] if store.cert is None else [store.cert]) + store.additional_certs
    parts += [each.certificate.public_bytes(encoding) for each in certificates]
    return b"".join(parts).decode()


@contextmanager
def _nameless(text: str) -> Iterator[str]:
    """Yield a path of this process alone at which the text can be read."""
    fd = os.memfd_create("pem", os.MFD_CLOEXEC)
    with os.fdopen(fd, "wb") as file:
        file.write(text.encode())
        file.flush()
        yield f"/proc/self/fd/{fd}"


def _reason(error: Exception) -> str:
    """Return what OpenSSL says, which has nothing of the key."""
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "unreadable"
    return str(reason).replace("_", " ").lower()

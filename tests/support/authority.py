"""An authority for tests: keys and certificates of any name, time and extension, as PEM files."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tests.support.private_file import write_private

HOSTS = ("localhost", "127.0.0.1", "::1")
_OIDS = {
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "C": NameOID.COUNTRY_NAME,
    "E": NameOID.EMAIL_ADDRESS,
    "UID": NameOID.USER_ID,
}

Name = Sequence[tuple[str, str]]  # the least specific part first, as in certificates


def name_of(parts: Name) -> x509.Name:
    """Return a name of (CN, value) and so on."""
    return x509.Name([x509.NameAttribute(_OIDS[kind], value) for kind, value in parts])


def certificates_of(key_store: Path) -> bytes:
    """Return the part of a key store without its key."""
    pem = key_store.read_bytes()
    return pem[pem.index(b"-----BEGIN CERTIFICATE") :]


class Authority:
    """One authority, in a folder of its own."""

    def __init__(self, folder: Path, name: str = "Test CA") -> None:
        """Make its key and certificate, `ca.pem`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name_of([("CN", name)])
        self.file = folder / "ca.pem"
        certificate = self._certificate(self._name, self._key, 365, (), is_ca=True)
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def key_store(
        self,
        name: str,
        hosts: Sequence[str] = HOSTS,
        *,
        subject: Name | None = None,
        days: int = 30,
        is_rsa: bool = False,
        password: bytes | None = None,
    ) -> Path:
        """Write NAME.pem, a key and its certificate, and return its path; `days` may be past."""
        path = self.folder / f"{name}.pem"
        pem = self.pem(subject or [("CN", name)], hosts, days, is_rsa, password)
        return write_private(path, pem)

    def revocation_list(
        self,
        path: Path,
        *revoked: Path,
        issued: timedelta = timedelta(hours=-1),
        expires: timedelta = timedelta(days=1),
    ) -> Path:
        """Write a list of the certificates in key stores; the times are from now."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now + issued)
            .next_update(now + expires)
        )
        for each in revoked:
            [certificate] = x509.load_pem_x509_certificates(certificates_of(each))
            entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(now + issued).build())
        made = builder.sign(self._key, hashes.SHA256())
        return write_private(path, made.public_bytes(serialization.Encoding.PEM))

    def pkcs12_store(self, path: Path, name: str, password: bytes) -> Path:
        """Write a store as keytool makes it, a key and its certificate, and return its path."""
        pem = self.pem([("CN", name)])
        key = serialization.load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        certificate = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
        encryption = serialization.BestAvailableEncryption(password)
        store = pkcs12.serialize_key_and_certificates(b"one", key, certificate, None, encryption)
        return write_private(path, store)

    def pem(
        self,
        subject: Name,
        hosts: Sequence[str] = HOSTS,
        days: int = 30,
        is_rsa: bool = False,
        password: bytes | None = None,
    ) -> bytes:
        """Return a new key and its certificate."""
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = (
            rsa.generate_private_key(65537, 2048)
            if is_rsa
            else ec.generate_private_key(ec.SECP256R1())
        )
        certificate = self._certificate(name_of(subject), key, days, hosts, is_ca=False)
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password)
        encoding = serialization.Encoding.PEM
        private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, encryption)
        return private + certificate.public_bytes(encoding)

    def _certificate(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
        days: int,
        hosts: Sequence[str],
        *,
        is_ca: bool,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        end = now + timedelta(days=days)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, end) - timedelta(days=1))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            # What Python 3.13 and later ask for unless they are told not to.
            .add_extension(_usage(is_ca=is_ca), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names: list[x509.GeneralName] = []
            for host in hosts:
                try:
                    names.append(x509.IPAddress(ipaddress.ip_address(host)))
                except ValueError:
                    names.append(x509.DNSName(host))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    """Return what a key may be used for: signing certificates, or handshakes of any kind."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not is_ca,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )

"""Certificates of a test's own authority, made by the openssl program."""

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

DAYS = "2"


class Certificate(NamedTuple):
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """An authority whose files are in a folder. Skips the test where there is no openssl."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        """Create the authority."""
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        self._folder = folder
        usage = "keyUsage=critical,keyCertSign,cRLSign"  # asked for by Python 3.13 and later
        self.own = self._create(name, "-subj", f"/CN={name}", "-addext", usage)

    def issue(self, name: str, *, address: str = "127.0.0.1") -> Certificate:
        """Create a certificate for an IP address, which a server or a client can use."""
        return self._create(
            name,
            *("-subj", f"/CN={name}"),
            *("-CA", str(self.own.certificate), "-CAkey", str(self.own.key)),
            *("-addext", f"subjectAltName=IP:{address}"),
            *("-addext", "extendedKeyUsage=serverAuth,clientAuth"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
        )

    def client_context(self, own: Certificate | None = None) -> ssl.SSLContext:
        """Return a client's context that trusts this authority only."""
        context = ssl.create_default_context(cafile=str(self.own.certificate))
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        return context

    def _create(self, name: str, *options: str) -> Certificate:
        made = Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", DAYS, *options]
        command += ["-keyout", str(made.key), "-out", str(made.certificate)]
        subprocess.run(command, check=True, capture_output=True)
        return made

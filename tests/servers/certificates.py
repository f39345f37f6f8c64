"""A certificate for the loopback that nobody vouches for, unless told to."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

__all__ = ["made"]


def made(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the certificate's file and what a server needs to show it."""
    pem, key = folder / "cert.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*argv, "-keyout", str(key), "-out", str(pem)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return pem, context

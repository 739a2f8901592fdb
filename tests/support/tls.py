"""A certificate authority of a test's own, and a server that it vouches for."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def authority(host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server of that name speaks TLS with, and what a client trusts it by."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A test's authority")])
    root = _signed(root_name, root_name, root_key, root_key, x509.BasicConstraints(ca=True, path_length=None))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    certificate = _signed(name, root_name, key, root_key, x509.SubjectAlternativeName([x509.DNSName(host)]))
    pem = serialization.Encoding.PEM
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(folder) / "chain.pem"
        plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        chain.write_bytes(plain + certificate.public_bytes(pem))
        server.load_cert_chain(chain)
    return server, ssl.create_default_context(cadata=root.public_bytes(pem).decode())


def _signed(
    name: x509.Name,
    by: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by_key: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(extension, critical=False)
        .sign(by_key, hashes.SHA256())
    )

"""Certificate authority of a test, and a server with its certificate."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def authority(host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's TLS context for the host name, and a client's context with the authority."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A test's authority")])
    signs = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    # Include all extensions that Python 3.13 requires (RFC 5280).
    root = _signed(
        root_name,
        root_name,
        root_key,
        root_key,
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (signs, True),
        (x509.SubjectKeyIdentifier.from_public_key(root_key.public_key()), False),
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    certificate = _signed(
        name,
        root_name,
        key,
        root_key,
        (x509.SubjectAlternativeName([x509.DNSName(host)]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), False),
    )
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
    *extensions: tuple[x509.ExtensionType, bool],
) -> x509.Certificate:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )
    for extension, is_critical in extensions:
        made = made.add_extension(extension, critical=is_critical)
    return made.sign(by_key, hashes.SHA256())

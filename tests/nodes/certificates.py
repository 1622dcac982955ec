"""Certificates for this machine, each signed by an authority of its own."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificates(folder: Path, name: str = "") -> str:
    """A certificate for this machine, signed by an authority of its own; the settings for it."""
    now = datetime.now(UTC)
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nodes")])

    def built(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    root = built(issuer, authority).add_extension(x509.BasicConstraints(True, 0), critical=True)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    root = root.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    root = root.add_extension(identifier, critical=False)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    leaf = built(subject, own).add_extension(names, critical=False)
    leaf = leaf.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )
    pem = serialization.Encoding.PEM
    (folder / f"ca{name}.pem").write_bytes(root.sign(authority, hashes.SHA256()).public_bytes(pem))
    (folder / f"cert{name}.pem").write_bytes(
        leaf.sign(authority, hashes.SHA256()).public_bytes(pem)
    )
    (folder / f"key{name}.pem").write_bytes(
        own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return "certificate = 'cert.pem'\nkey = 'key.pem'\nauthorities = 'ca.pem'"

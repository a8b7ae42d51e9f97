"""Certificates for tests: an authority that nobody knows, and what it signs."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

VALID = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    chain: Path
    key: Path

    def make_context(self) -> ssl.SSLContext:
        """Make the context of a server with this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context


class ThrowawayAuthority:
    """Its own certificate is in `ca_file`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key, self._name = generate_private_key(SECP256R1()), _make_name("an authority for tests")
        own = _build(self._name, self._name, self._key)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(own.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def sign(self, host: str, ended: timedelta = timedelta()) -> ServerCertificate:
        """`ended`: for so long it is no longer valid."""
        key = generate_private_key(SECP256R1())
        built = _build(_make_name(host), self._name, key, datetime.now(UTC) - (ended + VALID if ended else ended))
        made = _add_host(built, host).sign(self._key, SHA256())
        return self._write(f"signed-{host}{'-before' if ended else ''}", made, key)

    def make_self_signed(self, host: str) -> ServerCertificate:
        key = generate_private_key(SECP256R1())
        made = _add_host(_build(_make_name(host), _make_name(host), key), host).sign(key, SHA256())
        return self._write(f"alone-{host}", made, key)

    def _write(self, name: str, certificate: x509.Certificate, key: EllipticCurvePrivateKey) -> ServerCertificate:
        made = ServerCertificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        made.chain.write_bytes(certificate.public_bytes(Encoding.PEM))
        made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made


def _make_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _build(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, now: datetime | None = None
) -> x509.CertificateBuilder:
    now = now or datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
    )


def _add_host(builder: x509.CertificateBuilder, host: str) -> x509.CertificateBuilder:
    return builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)

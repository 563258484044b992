"""The certificate authority of a cluster, the server's certificate, and a key for each node."""

import contextlib
import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError

LOOPBACK = ("localhost", "127.0.0.1")
"""Names that every server certificate has: the command line talks to the SuperLink on its own machine."""

AUTHORITY_DAYS = 3650


def make_authority(certificate: Path, key: Path) -> None:
    """A self-signed authority, whose key signs the server's certificates and is used for nothing else."""
    private = ec.generate_private_key(ec.SECP384R1())
    name = _name("curvfed cluster authority")
    usage = x509.KeyUsage(
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
    unsigned = (
        _unsigned(name, name, private.public_key(), private.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    _write_signed(certificate, unsigned, private, key, private)


def make_server(certificate: Path, key: Path, authority: tuple[Path, Path], names: Sequence[str], days: int) -> None:
    """A key and a certificate for a server that is reached under `names`, host names or addresses, and on loopback.

    Raises
    ------
    WrongUsageError
        If a name is neither.
    ClusterError
        If the authority's key is of another kind.
    """
    signer = serialization.load_pem_private_key(authority[1].read_bytes(), None)
    issuer = x509.load_pem_x509_certificate(authority[0].read_bytes())
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ClusterError(f"{authority[1]} is no elliptic-curve key")
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.SubjectAlternativeName([_alternative(name) for name in dict.fromkeys([*names, *LOOPBACK])])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    unsigned = (
        _unsigned(_name("curvfed SuperLink"), issuer.subject, private.public_key(), signer.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(subject, critical=False)
        .add_extension(usage, critical=False)
    )
    _write_signed(certificate, unsigned, signer, key, private)


def make_node_key(private: Path, public: Path) -> None:
    """The key by which a SuperNode proves who it is, and its public half in the form that Flower registers."""
    key = ec.generate_private_key(ec.SECP384R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    write_new(private, key.private_bytes(encoding, form, serialization.NoEncryption()), private=True)
    ssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    write_new(public, key.public_key().public_bytes(*ssh) + b"\n")


def check_names(names: Sequence[str]) -> None:
    """Refuse what a certificate cannot be for.

    Raises
    ------
    WrongUsageError
        If a name is neither a host name nor an address.
    """
    for name in names:
        _alternative(name)


def check_days(days: int, authority: Path | None = None) -> None:
    """Refuse a server certificate that would be over at once, or outlive its authority, by default a new one.

    Raises
    ------
    WrongUsageError
    """
    left = AUTHORITY_DAYS if authority is None else time_left(authority).days
    if not 1 <= days <= left:
        raise WrongUsageError(f"days is {days}; allowed is 1 to {left}, the days that the authority has")


def time_left(certificate: Path) -> datetime.timedelta:
    """How long a certificate is valid still; negative after its end."""
    end = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    return end - datetime.datetime.now(datetime.UTC)


def names_of(certificate: Path) -> list[str]:
    """The names that a server certificate is for."""
    loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def write_new(path: Path, content: bytes, private: bool = False) -> None:
    """Write a file that must not be there yet; a private one is never readable by others, not even while it is written.

    Raises
    ------
    ClusterError
        If it is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    except FileExistsError:
        raise ClusterError(f"{path} exists and is not overwritten") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    # An hour back: the clocks of the hosts need not agree to the second.
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    if not name.isascii() or not re.fullmatch(r"[^\s/:@]+", name):
        raise WrongUsageError(f"{name!r} is neither a host name nor an address")
    return x509.DNSName(name)


def _write_signed(
    certificate: Path,
    unsigned: x509.CertificateBuilder,
    signer: ec.EllipticCurvePrivateKey,
    key: Path,
    private: ec.EllipticCurvePrivateKey,
) -> None:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    write_new(key, private.private_bytes(encoding, form, serialization.NoEncryption()), private=True)
    write_new(certificate, unsigned.sign(signer, hashes.SHA384()).public_bytes(encoding))

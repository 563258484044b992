"""The certificate authority of a cluster, the server's certificate, and a key for each node."""

import contextlib
import datetime
import ipaddress
import os
import re
import ssl
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from curvfed.extensions.cluster.commands import ClusterError, ToleratedError, WrongUsageError
from curvfed.tasks.amounts import amount

LOOPBACK = ("localhost", "127.0.0.1")
"""Names in every server certificate: the command line connects to the SuperLink on this machine."""

AUTHORITY_DAYS = 3650


def make_authority(certificate: Path, key: Path) -> None:
    """Make a self-signed authority that signs only server certificates."""
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
    _write_private(key, private, serialization.PrivateFormat.PKCS8)
    _sign(certificate, unsigned, private)


def make_server(
    certificate: Path,
    key: Path,
    authority: tuple[Path, Path],
    names: x509.SubjectAlternativeName,
    days: int,
) -> None:
    """Make the key and the certificate of a server with these `names`; `authority` is a certificate
    and its key."""
    issuer = x509.load_pem_x509_certificate(authority[0].read_bytes())
    signer: Any = serialization.load_pem_private_key(authority[1].read_bytes(), None)
    private = ec.generate_private_key(ec.SECP256R1())
    name = _name("curvfed SuperLink")
    unsigned = (
        _unsigned(name, issuer.subject, private.public_key(), signer.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    _write_private(key, private, serialization.PrivateFormat.PKCS8)
    _sign(certificate, unsigned, signer)


def make_node_key(private: Path, public: Path) -> None:
    """Make the key that authenticates a SuperNode, and its public half in the form that Flower
    registers."""
    key = ec.generate_private_key(ec.SECP384R1())
    _write_private(private, key, serialization.PrivateFormat.OpenSSH)
    write_new(public, _public_text(key) + b"\n")


def server_names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    """The entry of a server certificate for host names and addresses, and for loopback.

    Raises
    ------
    WrongUsageError
        If a name is neither a host name nor an address.
    """
    return x509.SubjectAlternativeName(
        [_alternative(name) for name in dict.fromkeys([*names, *LOOPBACK])]
    )


def node_host(names: Sequence[str]) -> str:
    """The first name by which nodes can connect; that of this machine without names.

    Raises
    ------
    WrongUsageError
        If all are patterns of names, such as `*.example.org`.
    """
    hosts = [name for name in names if "*" not in name]
    if names and not hosts:
        raise WrongUsageError(
            f"{names[0]} stands for several host names, and no node can connect to it; allowed"
            " beside it is `--host` with a name or an address of the server",
            key="host",
        )
    return hosts[0] if hosts else LOOPBACK[0]


def names_of(certificate: Path) -> x509.SubjectAlternativeName:
    """The names in a server certificate.

    Raises
    ------
    ClusterError
        If it cannot be read.
    """
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
        return loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise ClusterError(
            f"{certificate} cannot be read ({error}), so its names are not known; give them by"
            " --host",
            key="unreadable",
        ) from None


def check_authority(authority: tuple[Path, Path]) -> None:
    """Refuse an authority that cannot sign.

    Raises
    ------
    ClusterError
        If its certificate or its key cannot be read, or they do not belong together.
    """
    certificate, key = authority
    try:
        public = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
        private: Any = serialization.load_pem_private_key(key.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ClusterError(
            f"the authority cannot sign: {error}; put back {certificate.name} and {key.name} of"
            f" `init` in {key.parent}",
            key="unreadable",
        ) from None
    if private.public_key() != public:
        raise ClusterError(
            f"{key} is not the key of {certificate}; put back that of `init`",
            key="unrelated-certificates",
        )


def check_days(days: int, authority_days: int = AUTHORITY_DAYS) -> None:
    """Refuse a server certificate without days, or with more days than its authority.

    Raises
    ------
    WrongUsageError
    """
    if not 1 <= days <= authority_days:
        raise WrongUsageError(
            f"days is {days}; allowed is 1 to {authority_days}, the days that the authority has",
            key="days",
        )


def time_left(certificate: Path) -> datetime.timedelta:
    """The remaining validity of a certificate; negative after its end."""
    end = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    return end - datetime.datetime.now(datetime.UTC)


def check_certificate(path: Path) -> str:
    """Report how long a certificate is valid.

    Raises
    ------
    ToleratedError
        If it ends within 30 days.
    ClusterError
        If it cannot be read or has expired.
    """
    try:
        remaining = time_left(path)
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path} cannot be read ({error})", key="unreadable") from None
    if remaining < datetime.timedelta():
        raise ClusterError(
            f"{path} expired {amount(-remaining.days, 'day')} ago", key="expired-certificate"
        )
    validity = f"{path} ends in {amount(remaining.days, 'day')}"
    if remaining.days < 30:
        raise ToleratedError(validity, key="expired-certificate")
    return validity


def check_pair(server: tuple[Path, Path], authority: Path) -> str:
    """Report that a server's certificate has its key and is signed by an authority.

    Raises
    ------
    ClusterError
        If not.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*server)
        issuer = x509.load_pem_x509_certificate(authority.read_bytes())
        x509.load_pem_x509_certificate(server[0].read_bytes()).verify_directly_issued_by(issuer)
    except (OSError, ValueError, TypeError, InvalidSignature) as error:
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise ClusterError(
            f"{server[0]}, {server[1].name} and {authority.name} do not belong together ({reason})",
            key="unrelated-certificates",
        ) from None
    return f"{server[0]} is by {authority}, and has its key"


def write_new(path: Path, content: bytes, private: bool = False) -> None:
    """Write a new file; other users can never read a private one, not even while it is written.

    Raises
    ------
    ClusterError
        If it exists.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = 0o600 if private else 0o644
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise ClusterError(f"{path} exists and is not overwritten", key="exists") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def check_private(path: Path) -> str:
    """Report that a private key is private.

    Raises
    ------
    ClusterError
        If others can read it.
    """
    key = path.stat()
    # As ssh does: a group that reads another user's key is intended.
    if key.st_uid == os.getuid() and key.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ClusterError(
            f"others may read or change {path}, mode {key.st_mode & 0o777:04o}", key="open-key"
        )
    return f"{path}: private"


def check_node_key(private: Path, public: Path) -> str:
    """Report that Flower can use a node's private key, and that its public key, if it is here,
    belongs to it.

    Raises
    ------
    ClusterError
        If not.
    """
    try:
        key = serialization.load_ssh_private_key(private.read_bytes(), None)
        shared = public.read_bytes() if public.exists() else None
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ClusterError(
            f"{private} is no private key without a passphrase in OpenSSH's format ({error})",
            key="node-key",
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ClusterError(
            f"{private} is no ECDSA key, which Flower needs: ssh-keygen -t ecdsa -b 384 makes one",
            key="node-key",
        )
    if shared is not None and shared.split()[:2] != _public_text(key).split():  # then a comment
        raise ClusterError(
            f"{public} is not the public key of {private.name}: the server has admitted another"
            " key",
            key="node-key",
        )
    return f"{private}: an ECDSA key" + ("" if shared is None else f", that of {public.name}")


def _public_text(private: Any) -> bytes:
    text: bytes = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return text


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    # An hour ago, because the clocks of hosts differ.
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
    )
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.add_extension(authority, critical=False)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(name)
        if address.is_unspecified:
            raise WrongUsageError(
                f"{name} stands for all addresses of a machine, and no node can connect to it;"
                " allowed is a name or an address of the server",
                key="host",
            )
        return x509.IPAddress(address)
    if not name.isascii() or not re.fullmatch(r"(\*\.)?[^\s/:@*]+", name):
        raise WrongUsageError(f"{name!r} is neither a host name nor an address", key="host")
    return x509.DNSName(name)


def _write_private(
    path: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat
) -> None:
    content = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    write_new(path, content, private=True)


def _sign(
    certificate: Path, unsigned: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey
) -> None:
    signed = unsigned.sign(signer, hashes.SHA384())
    write_new(certificate, signed.public_bytes(serialization.Encoding.PEM))

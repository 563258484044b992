"""The messages of a secure sum, with the types and sizes of their parts."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum.crypto import KEY_BYTES, SIGNATURE_BYTES

Parts = dict[str, str | int | bytes | list[int] | list[bytes]]
"""A message in the types of Flower's records."""

HASH_BYTES = 32

SEED_TAG = b"s"
KEY_TAG = b"k"
"""First byte of a revealed share: of the seed of a self mask, or of a mask key's secret."""

Key = Annotated[bytes, Field(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Hash = Annotated[bytes, Field(min_length=HASH_BYTES, max_length=HASH_BYTES)]


def _check_signature(signature: bytes) -> bytes:
    if len(signature) not in (0, SIGNATURE_BYTES):
        raise ValueError(f"a signature has {SIGNATURE_BYTES} bytes, or none")
    return signature


Signature = Annotated[bytes, AfterValidator(_check_signature)]


class Message(BaseModel):
    """A message with exactly these parts of exactly these types. No error shows a value."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )

    def as_parts(self) -> Parts:
        """Parts by name, for a message or a record."""
        return self.model_dump()

    @classmethod
    def from_parts(cls, parts: Mapping[str, object]) -> Self:
        """Inverse of `as_parts`.

        Raises
        ------
        SecureSumError
            If a part is missing, not allowed, or of a wrong type or size.
        """
        try:
            return cls.model_validate(dict(parts))
        except ValidationError as error:
            raise refusal(cls, error) from None


def refusal(kind: type[Message], error: ValidationError) -> SecureSumError:
    """The error for a wrong message, without any of its values."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    texts = [": ".join([".".join(map(str, fault["loc"])), fault["msg"]]) for fault in faults[:3]]
    return SecureSumError(f"{kind.__name__}: {'; '.join(texts)}", key="message")


class PublicKeys(Message):
    """A client's public keys for one session.

    Attributes
    ----------
    mask_key, encryption_key : bytes, 32
        X25519: for pairwise masks, and for encryption between clients.
    signature : bytes
        Ed25519, 64 bytes; empty if the client has no signing key.
    """

    mask_key: Key
    encryption_key: Key
    signature: Signature

    @property
    def both(self) -> bytes:
        """Mask key and encryption key."""
        return self.mask_key + self.encryption_key

    def as_bytes(self) -> bytes:
        """Both keys and the signature, for the peers."""
        return self.both + self.signature

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        """Inverse of `as_bytes`; raises as `from_parts`."""
        mask_key = text[:KEY_BYTES]
        encryption_key = text[KEY_BYTES : 2 * KEY_BYTES]
        signature = text[2 * KEY_BYTES :]
        return cls.from_parts(
            {"mask_key": mask_key, "encryption_key": encryption_key, "signature": signature}
        )


class Advertisement(PublicKeys):
    """A client's public keys in its message to the server.

    Attributes
    ----------
    signing_key : bytes
        The Ed25519 key that the client claims to sign with, 32 bytes, or none. Its peers look into
        their roster.
    """

    signing_key: bytes = Field(max_length=KEY_BYTES)


class BytesByPartition(Message):
    """Bytes of, or for, several clients: all public keys, encrypted shares, revealed shares."""

    partitions: list[int]
    values: list[bytes] = Field(repr=False)

    @model_validator(mode="after")
    def _check_lists(self) -> Self:
        if len(set(self.partitions)) != len(self.partitions):
            raise ValueError("a partition comes twice")
        if len(self.values) != len(self.partitions):
            raise ValueError("partitions and values are lists of different lengths")
        return self

    @classmethod
    def of(cls, values: Mapping[int, bytes], **parts: bytes) -> Self:
        """The message of these values; `others` are the parts of a subclass."""
        return cls.from_parts({"partitions": [*values], "values": [*values.values()], **parts})

    @property
    def by_partition(self) -> dict[int, bytes]:
        """Values by partition."""
        return dict(zip(self.partitions, self.values, strict=True))


class EncryptedShares(BytesByPartition):
    """A client's messages to its peers, by receiver, and its commitment to the seed of its self
    mask."""

    commitment: Hash


class Basis(Message):
    """What a member computes its vector from: digests that all members of a sum must share.

    Attributes
    ----------
    parameters : bytes, 32
        Of the shared and fixed parameters that the server sent.
    facts : bytes, 32
        Of the facts of the federation that the server sent.
    configuration : bytes, 32
        Of the run's configuration.
    code : bytes, 32
        Of the app's code at the member.
    """

    parameters: Hash
    facts: Hash
    configuration: Hash
    code: Hash

    @property
    def digest(self) -> bytes:
        """SHA-256 of all four; it goes into the pairwise masks and the signed survivors."""
        return sha256(self.parameters + self.facts + self.configuration + self.code).digest()

    @property
    def short(self) -> dict[str, str]:
        """The first eight bytes of each digest, in hexadecimal, for a log or a ledger."""
        return {name: getattr(self, name)[:8].hex() for name in Basis.model_fields}

    def differences(self, other: "Basis") -> list[str]:
        """The names of the digests that another basis does not share."""
        names = Basis.model_fields
        return [name for name in names if getattr(other, name) != getattr(self, name)]


class MaskedInput(Basis):
    """The `checksum` of a masked input, and the basis of its vector."""

    checksum: Hash


class Survivors(Message):
    """The clients whose masked inputs are in the sum."""

    survivors: list[int]


class Confirmation(Message):
    """A client's signature of the survivors; empty if the session is not signed."""

    signature: Signature


class Complaint(Message):
    """The peers whose keys or shares do not verify; replaces a client's shares or masked input."""

    complaint: list[int] = Field(min_length=1)


def public_keys_message(keys: Mapping[int, PublicKeys]) -> BytesByPartition:
    """The public keys of many clients."""
    return BytesByPartition.of({partition: key.as_bytes() for partition, key in keys.items()})


def public_keys_in(message: BytesByPartition) -> dict[int, PublicKeys]:
    """Inverse of `public_keys_message`; raises as `Message.from_parts`."""
    return {
        partition: PublicKeys.from_bytes(text) for partition, text in message.by_partition.items()
    }

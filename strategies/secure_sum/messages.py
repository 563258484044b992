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


class PublicKey(Message):
    """A member's public key for the masks of one run.

    Attributes
    ----------
    key : bytes, 32
        X25519.
    signature : bytes
        Ed25519, 64 bytes; empty without a signing key.
    """

    key: Key
    signature: Signature

    def as_bytes(self) -> bytes:
        """Key and signature, for the peers."""
        return self.key + self.signature

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        """Inverse of `as_bytes`; raises as `from_parts`."""
        return cls.from_parts({"key": text[:KEY_BYTES], "signature": text[KEY_BYTES:]})


class BytesByPartition(Message):
    """Bytes of, or for, several members: their public keys, or encrypted texts."""

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
    def of(cls, values: Mapping[int, bytes], **parts: int) -> Self:
        """The message of these values; `parts` are those of a subclass."""
        return cls.from_parts({"partitions": [*values], "values": [*values.values()], **parts})

    @property
    def by_partition(self) -> dict[int, bytes]:
        """Values by partition."""
        return dict(zip(self.partitions, self.values, strict=True))


class Basis(Message):
    """The inputs of a member's vector, as digests that all members of a sum must share.

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
    state : bytes, 32
        Of the round of the personal state that the server asked for.
    """

    parameters: Hash
    facts: Hash
    configuration: Hash
    code: Hash
    state: Hash

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of them; it goes into the masks."""
        fields = [getattr(self, name) for name in Basis.model_fields]
        return sha256(b"".join(fields)).digest()

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


def public_keys_message(keys: Mapping[int, PublicKey]) -> BytesByPartition:
    """The public keys of many members."""
    return BytesByPartition.of({partition: key.as_bytes() for partition, key in keys.items()})


def public_keys_in(message: BytesByPartition) -> dict[int, PublicKey]:
    """Inverse of `public_keys_message`; raises as `Message.from_parts`."""
    return {
        partition: PublicKey.from_bytes(text) for partition, text in message.by_partition.items()
    }

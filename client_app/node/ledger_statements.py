"""What nodes state about each other's ledgers in a sum: two heads, as bytes."""

from curvfed.client_app.node.ledger_file import Head

_SIZE_BYTES = 8
_DIGITS = 32
"""Bytes of a ledger's size, and hexadecimal digits of its digest, as nodes state them."""


def stated_head(size: int, digest: str) -> bytes:
    """A head in a statement to a peer; zeros for none."""
    return size.to_bytes(_SIZE_BYTES) + bytes.fromhex(digest[:_DIGITS].ljust(_DIGITS, "0"))


def head_in(statement: bytes, position: int) -> Head:
    """One of the two heads in a peer's statement; none if the statement is of another length."""
    length = _SIZE_BYTES + _DIGITS // 2
    if len(statement) != 2 * length:
        return Head()
    text = statement[position * length : (position + 1) * length]
    size = int.from_bytes(text[:_SIZE_BYTES])
    return Head(size=size, digest=text[_SIZE_BYTES:].hex())

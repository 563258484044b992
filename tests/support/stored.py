"""Files with a digest, as a run writes them, whose contents a test chooses."""

from pathlib import Path

from curvfed.strategies.config.parse import SEALED_HEADING
from curvfed.strategies.wire.store import file_parts
from curvfed.tasks.stored_files import sealed


def write_arrays(path: Path, arrays, metadata) -> None:
    path.write_bytes(b"".join(file_parts(arrays, metadata)))


def write_settings(path: Path, text: str) -> None:
    path.write_bytes(sealed((SEALED_HEADING + text).encode()))

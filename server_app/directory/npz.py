"""The .npz files in a run directory, whose digest stands in the comment at the end of a zip
file.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.tasks.stored_files import FORMAT, UNSEALED, check_whole, sealed, write_atomically

_COMMENT = f"curvfed format {FORMAT} {UNSEALED}".encode()


def write_npz(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays by name into a private file."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    # A zip file ends with the length of its comment and the comment.
    content = file.getvalue()[:-2] + len(_COMMENT).to_bytes(2, "little") + _COMMENT
    write_atomically(path, sealed(content), private=True)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file by name.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is damaged or not an .npz file.
    """
    data = path.read_bytes()
    try:
        check_whole(data)
        with np.load(io.BytesIO(data)) as arrays:
            return {name: arrays[name] for name in arrays.files}
    # among others BadZipFile, zlib.error, RuntimeError, TokenError, EOFError
    except Exception as error:
        raise ValueError(f"{path} cannot be read: {error}") from None

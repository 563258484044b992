"""The .npz files in a run directory; the comment at the end of each zip file has its digest.
`hulls.npz` of a one-shot run has decoded hulls, the classifier, and in a simulation the clients'
points; `classifier.npz` lacks hulls. `global_test.npz` has predictions and features of the global
model on the server's test images.
"""

import io
from pathlib import Path

import numpy as np

from curvfed.geometry.arrays import Array
from curvfed.tasks.stored_files import FORMAT, UNSEALED, check_whole, sealed, write_atomically

_COMMENT = f"curvfed format {FORMAT} {UNSEALED}".encode()

SPACES = ("flat", "sphere", "poincare", "prototypes")
"""How the features in `global_test.npz` are drawn."""


def write_npz(path: Path, arrays: dict[str, Array]) -> None:
    """Write arrays by name into a private file."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    # A zip file ends with the length of its comment and the comment.
    content = file.getvalue()[:-2] + len(_COMMENT).to_bytes(2, "little") + _COMMENT
    write_atomically(path, sealed(content), private=True)


def read_npz(path: Path) -> dict[str, Array]:
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

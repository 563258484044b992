"""Reading of .npz files in a run directory."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file by name.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is damaged or not an .npz file.
    """
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError):
        raise
    except Exception as error:  # among others BadZipFile, zlib.error, RuntimeError, TokenError, EOFError
        raise ValueError(f"{path} is damaged: {error}") from None

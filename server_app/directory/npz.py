"""Arrays of a run directory, read back."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz by name.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is damaged, or no such file.
    """
    try:
        with path.open("rb") as file, np.load(file) as told:
            return {name: told[name] for name in told.files}
    except (OSError, ValueError):
        raise
    except Exception as error:  # each layer has its own: BadZipFile, zlib.error, RuntimeError, TokenError, EOFError
        raise ValueError(f"{path} is damaged: {error}") from None

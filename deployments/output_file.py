"""Whether the files and folders of a command can be used, before anything is computed."""

import os
from collections.abc import Sequence
from pathlib import Path

from curvfed.deployments.arguments import UsageError


def check_output(out: Path, endings: Sequence[str], *inputs: Path) -> None:
    """Refuse a file that cannot be written, or is one of the inputs.

    Raises
    ------
    UsageError
    """
    folder = out.absolute().parent
    if out.suffix.lower() not in endings:
        fault = f"allowed are files that end in {' or '.join(endings)}"
    elif any(out.exists() and path.exists() and out.samefile(path) for path in inputs):
        fault = "a file that is read; allowed is any other"
    elif out.is_dir():
        fault = "a folder; allowed is a file"
    elif not folder.is_dir():
        fault = f"and there is no folder {folder}; allowed is a file in a folder that is there"
    elif not os.access(folder, os.W_OK):
        fault = f"and this user may not write to {folder}; allowed is a file in another folder"
    else:
        return
    raise UsageError(f'out is "{out}", {fault}', key="out")


def make_folder(folder: Path) -> None:
    """Make the folder of the pages.

    Raises
    ------
    UsageError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", key="unwritable") from None


def check_working_folder() -> None:
    """Refuse a deleted working folder, in which libraries of torch end the process silently.

    Raises
    ------
    UsageError
    """
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(
            f"the working folder cannot be used ({error.strerror}); go to another",
            key="working-folder",
        ) from None

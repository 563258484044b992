"""The resources of a run on a machine or in a Ray cluster, and whether the files and folders of a
command can be used, before anything is computed."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.cores import usable_cores
from curvfed.deployments.errors import MachineError
from curvfed.deployments.gpus import visible_gpus
from curvfed.deployments.processes import MAX_SOCKET_FOLDER, socket_folder
from curvfed.tasks.stored_files import write_fault


@dataclass(frozen=True)
class Resources:
    """The resources of a run.

    Attributes
    ----------
    cpus : int
        Cores, and threads of its arithmetic.
    gpus : float
        Share of a GPU; 0 for none.
    address : str
        The address of a running Ray cluster; empty for this machine.

    Raises
    ------
    UsageError
        If `gpus` is neither a share of one GPU nor a whole number, or this machine has fewer cores
        or GPUs.
    MachineError
        If nothing listens at the address.
    """

    cpus: int = 1
    gpus: float = 0.0
    address: str = ""

    def __post_init__(self) -> None:
        if not (0 <= self.gpus <= 1 or (self.gpus > 1 and self.gpus.is_integer())):
            raise UsageError(
                f"--gpus {self.gpus:g}: allowed is a share from 0 to 1, or a whole number",
                key="gpus",
            )
        if self.address:
            _check_reachable(self.address)
            return
        cores = usable_cores()
        devices = len(visible_gpus()) if self.gpus else 0
        if self.cpus > cores:
            raise UsageError(
                f"--cpus {self.cpus}: this machine has {cores}; allowed are up to {cores}",
                key="cpus",
            )
        if self.gpus > devices:
            raise UsageError(
                f"--gpus {self.gpus:g}: this machine has {devices}; allowed are up to {devices}",
                key="gpus",
            )


def check_socket_folder() -> None:
    """Refuse a machine without a temporary folder for Ray's sockets.

    Raises
    ------
    UsageError
    """
    if len(str(folder := socket_folder())) > MAX_SOCKET_FOLDER:
        raise UsageError(
            f"TMPDIR = {folder} is too long for Ray's sockets, and /tmp cannot be written;"
            f" allowed are up to {MAX_SOCKET_FOLDER} characters",
            key="long-tmpdir",
        )


def _check_reachable(address: str) -> None:
    """Fail at once if nothing listens at the address: Ray itself tries for minutes.

    Raises
    ------
    MachineError
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():  # a word such as auto
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise MachineError(f"no Ray cluster at {address}: {error}", key="no-ray") from None


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
    elif reason := write_fault(folder):
        fault = f"and {reason}; allowed is a file in another folder"
    else:
        return
    raise UsageError(f'out is "{out}", {fault}', key="out")


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

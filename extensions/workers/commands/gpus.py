"""The distribution of this machine's GPUs over the workers of all runs on it."""

import contextlib
import errno
import itertools
import socket
from collections.abc import Iterator, Sequence

from curvfed.deployments.gpus import visible_gpus
from curvfed.strategies.config.device import pick_device


def gpus_of(device: str) -> list[str]:
    """The names of the GPUs on which a run with this `device` trains; empty for the CPU.

    Raises
    ------
    ConfigError
        If this machine does not have it.
    """
    picked = pick_device(device)
    if picked.type != "cuda":
        return []
    names = visible_gpus()
    return names if picked.index is None else [names[picked.index]]


@contextlib.contextmanager
def gpus_in_turn(names: Sequence[str], workers: int) -> Iterator[list[str]]:
    """A GPU for each worker: within the block every run on this machine sees that it is in use.

    Worker i gets GPU i mod G. GPUs with fewer workers of other runs come first, so that two runs
    with one worker each have different GPUs.

    Parameters
    ----------
    names : sequence of str
        The GPUs of this run.
    workers : int
        Number of workers of this run.

    Yields
    ------
    list of str
        The name of the GPU of each worker; empty without GPUs.
    """
    with contextlib.ExitStack() as claims:
        gpus = list[str]()
        places = itertools.count() if names else ()
        for place in places:
            for name in names:
                if len(gpus) < workers and _claim(f"{name}/{place}", claims):
                    gpus.append(name)
            if len(gpus) == workers:
                break
        yield gpus


def _claim(name: str, claims: contextlib.ExitStack) -> bool:
    """Whether this run is the first to take a place on a GPU."""
    # A name without a file: it is free again when this process and its forks have ended.
    claim = claims.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        claim.bind(f"\0curvfed/gpu/{name}")
    except OSError as error:
        return error.errno != errno.EADDRINUSE  # another error: runs cannot see each other here
    return True


def workers_of(gpus: Sequence[str]) -> str:
    """The workers of each GPU, in words."""
    workers: dict[str, list[str]] = {}
    for number, name in enumerate(gpus, 1):
        workers.setdefault(name, []).append(str(number))
    texts = []
    for name, numbers in workers.items():
        noun = "worker" if len(numbers) == 1 else "workers"
        texts.append(f"GPU {name}: {noun} {', '.join(numbers)}")
    return "; ".join(texts)

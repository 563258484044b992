"""What the processes of a pool do in tests of the pool: no runs, and no imports of torch."""

import os
import signal
from collections.abc import Mapping
from functools import partial

from curvfed.deployments.processes import follow
from curvfed.extensions.sweeps.commands.sweep.child import Task, answer_all


def serve(descriptor: int, parent: int) -> None:
    follow(parent)
    answer_all(descriptor, partial(answer, descriptor))


def answer(descriptor: int, task: Task) -> tuple[str, float]:
    """The process and its variables, or none at all."""
    settings: Mapping[str, str] = task.settings
    if settings.get("end") == "cut":
        os.write(descriptor, (100).to_bytes(4) + b"the first of 100 bytes")
    if settings.get("end") in ("cut", "killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if settings.get("end") == "crashed":
        os._exit(3)
    return f"{os.getpid()} {os.environ['CUDA_VISIBLE_DEVICES']}", 1.0

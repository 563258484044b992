"""What a process of one run is told and answers, and how a clone is made importable."""

import contextlib
import importlib
import importlib.util
import json
import random
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import torch

ANSWER = "answer: "

Job = dict[str, Any]
"""`clone`, `name` (the peer's of the method), `rounds`, `theirs`, `settings` (ours), `clients`,
`folder` (to write to)."""


class CloneError(ValueError):
    """A folder that holds no clone of the peer."""


def check_clone(folder: Path, holds: Sequence[str]) -> None:
    """Raise a CloneError unless the folder has these files of the peer."""
    if absent := [name for name in holds if not (folder / name).is_file()]:
        raise CloneError(f"{folder} is no clone of this peer: it has no {', no '.join(absent)}")


def stand_in(*modules: str) -> None:
    """Let modules be imported that are absent and that no run uses: every name in them is an empty
    class."""
    from torch_geometric.typing import SparseTensor
    from torch_geometric.utils import scatter

    named = (*modules, "torch_scatter", "torch_sparse")
    for name in [
        name for name in named if importlib.util.find_spec(name.partition(".")[0]) is None
    ]:
        made = importlib.util.module_from_spec(ModuleSpec(name, None, is_package=True))
        vars(made)["__getattr__"] = lambda attribute: type(attribute, (), {})
        vars(made).update(scatter_add=scatter, SparseTensor=SparseTensor)
        sys.modules[name] = made


def modules(*names: str) -> list[Any]:
    """The peer's modules, to use and to change."""
    return [importlib.import_module(name) for name in names]


def seed_all(seed: int) -> None:
    """Seed all generators that peers draw from."""
    for set_seed in (random.seed, np.random.seed, torch.manual_seed):
        set_seed(seed)


def at_best_validation(curve: Sequence[Sequence[float]]) -> dict[str, float]:
    """The scores of a curve of (validation, test), each the unweighted mean over the clients, by
    round."""
    best = max(range(len(curve)), key=lambda index: curve[index][0])
    return {"best": 100 * curve[best][1], "personal": 100 * curve[-1][1], "round": best + 1}


def as_users_run(settings: dict[str, Any]) -> bool:
    """Whether a run is timed as its users run it: ours with workers, a peer's with the threads and
    the scoring that it has by default."""
    return "workers" in settings


def serve(run: Callable[[Job], dict[str, Any]]) -> None:
    """Run the job that the last argument has and print the answer; peers read arguments and print
    much."""
    job = json.loads(sys.argv.pop())
    if not as_users_run(job["settings"]):
        torch.set_num_threads(1)
    with contextlib.redirect_stdout(sys.stderr):
        answer = run(job)
    print(ANSWER + json.dumps(answer))

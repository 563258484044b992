"""What a process of one run is told, what it answers, and how a clone is made importable."""

import contextlib
import importlib.machinery
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ANSWER = "answer: "

Job = dict[str, Any]
"""`clone`, `name` (the peer's of the method), `settings` (ours), `theirs`, `clients`, `folder` (to write to)."""


class CloneError(ValueError):
    """A folder that holds no clone of the peer."""


def check_clone(folder: Path, holds: Sequence[str]) -> None:
    """Raise a CloneError unless the folder has these files of the peer."""
    if absent := [name for name in holds if not (folder / name).is_file()]:
        raise CloneError(
            f"{folder} is no clone of this peer: {', '.join(absent)} {'is' if len(absent) == 1 else 'are'} absent"
        )


class _Absent(ModuleType):
    """A package that a peer imports and this comparison does not use: any name in it is an empty class."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder:
    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name.partition(".")[0] in self.packages else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def stand_in(packages: Sequence[str]) -> None:
    """Let absent packages be imported, scatter_add and SparseTensor by PyTorch Geometric's own; installed ones stay."""
    from torch_geometric.typing import SparseTensor
    from torch_geometric.utils import scatter

    sys.meta_path.append(_Finder(packages))  # type: ignore[arg-type]
    if "torch_scatter" in packages:
        import torch_scatter
        import torch_sparse

        torch_scatter.scatter_add = scatter
        torch_sparse.SparseTensor = SparseTensor


def at_best_validation(curve: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The scores of a curve of (validation, test), each the unweighted mean over the clients, by round."""
    best = max(range(len(curve)), key=lambda index: curve[index][0])
    return {"best": 100 * curve[best][1], "personal": 100 * curve[-1][1], "round": best + 1}


def serve(run: Callable[[Job], dict[str, Any]]) -> None:
    """Run the job in the last argument; its answer is the last line. Peers read arguments and print: neither goes through."""
    job = json.loads(sys.argv.pop())
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(sys.stderr):
        answer = run(job)
    print(ANSWER + json.dumps(answer))

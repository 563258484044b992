"""`curvfed.geometry` beside torch, numpy and scipy alone, its examples, its imports."""

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import curvfed.geometry

ROOT = Path(__file__).parents[3]
MODULES = [
    f"curvfed.geometry.{module.name}" for module in pkgutil.iter_modules(curvfed.geometry.__path__)
]

BLOCKED = """
import importlib, sys, sysconfig

import numpy, scipy, scipy.optimize, scipy.linalg, scipy.sparse, scipy.spatial, torch, torch.nn.functional

before, third_party = set(sys.modules), sysconfig.get_paths()["purelib"]


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ALLOWED | sys.stdlib_module_names:
            return None
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


ALLOWED = {"curvfed", "torch", "numpy", "scipy"}
sys.meta_path.insert(0, Blocker())
for name in list(sys.modules):
    if name.partition(".")[0] in {"sklearn", "pydantic", "networkx", "threadpoolctl", "flwr", "pandas"}:
        del sys.modules[name]
"""

CALLS = (
    BLOCKED
    + """
import curvfed.geometry
from curvfed.geometry import *
for name in sys.argv[1:]:
    importlib.import_module(name)
import torch
assert float(poincare.dist(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 0.0]), -1.0)) > 1
assert float(lorentz.dist(lorentz.exp0(torch.ones(2), -1.0), lorentz.exp0(-torch.ones(2), -1.0), -1.0)) > 2
assert prototypes.uniform(7, 3, 0).shape == (7, 3)
assert min_norm_point([[1.0, 0.0], [0.0, 1.0]]).sum() == 1
assert forman_ricci(torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]), 3).tolist() == [3] * 6
points = [[0.5, 0.1], [0.4, -0.2], [-0.5, 0.1], [-0.3, 0.2]]
assert len(convex_hull(points, -1.0)) == 4
assert PoincareQuantizer(0.1, 0.9, -1.0).encode(points).size == 4
assert PoincareSVM(-1.0, 1.0).fit(points, [1, 1, 0, 0]).predict(points).tolist() == [1, 1, 0, 0]
assert EuclideanSVM(1.0).fit(points, [1, 1, 0, 0]).predict(points).tolist() == [1, 1, 0, 0]
try:
    PoincareSVM(-1.0, 1.0).predict(points)
except ValueError as error:
    assert "fit" in str(error)
"""
)


def python(code, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_torch_numpy_and_scipy_are_enough():
    python(CALLS, *MODULES)


def test_the_package_itself_imports_nothing():
    code = (
        "import sys, curvfed.geometry; print([name for name in ('torch', 'numpy', 'scipy') if name"
        " in sys.modules])"
    )
    assert python(code).strip() == "[]"


def test_public_names():
    names = set(curvfed.geometry.__all__)
    assert names == {name for name in dir(curvfed.geometry) if name in names}
    for name in names:
        assert getattr(curvfed.geometry, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = curvfed.geometry.nothing


@pytest.mark.parametrize("name", ["curvfed.geometry", *MODULES])
def test_examples(name):
    result = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.failed == 0


PUBLIC = [
    "poincare",
    "lorentz",
    "normal_coordinates",
    "prototypes",
    "hull",
    "curvature",
    "min_norm",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_have_an_example(name):
    module = importlib.import_module(f"curvfed.geometry.{name}")
    own = [
        value for key, value in vars(module).items() if callable(value) and not key.startswith("_")
    ]
    internal = {"to_klein", "from_klein", "checked_edges"}
    for function in own:
        if (
            getattr(function, "__module__", "") == module.__name__
            and function.__name__ not in internal
        ):
            assert ">>>" in (function.__doc__ or ""), function

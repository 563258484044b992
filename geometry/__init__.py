"""Curved spaces: pure functions on tensors and arrays, which need only torch, numpy and scipy.

Modules of functions: `poincare` and `lorentz` (the maps of hyperbolic space), `normal_coordinates`
(distances without a limit), `prototypes` (fixed class prototypes). The other public names are
functions and classes. All are imported when they are first used.

>>> import torch
>>> from curvfed.geometry import poincare
>>> x = poincare.exp0(torch.tensor([0.5, 0.0]), curvature=-1.0)
>>> poincare.dist(x, -x, curvature=-1.0).round(decimals=4)
tensor(2.)
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "EuclideanSVM": "svm",
    "PoincareQuantizer": "quantizer",
    "PoincareSVM": "svm",
    "convex_hull": "hull",
    "forman_ricci": "curvature",
    "lorentz": "",
    "min_norm_point": "min_norm",
    "normal_coordinates": "",
    "poincare": "",
    "prototypes": "",
}
"""The module of each public name; "" for a module itself."""

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """A public name, imported when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    module = import_module(f"{__name__}.{home or name}")
    return getattr(module, name) if home else module


def __dir__() -> list[str]:
    return [*globals(), *__all__]

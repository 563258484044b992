"""Federated learning in curved spaces, a Flower app.

In a checkout, and in the bundle that Flower ships, the rooms of this package (`strategies`,
`geometry`, …) are folders next to this one, and become its modules here. In an installed wheel they
lie below it, and nothing is added.

>>> import curvfed
>>> run = curvfed.simulate(method="flatland", num_supernodes=2, num_rounds=1, quiet=True)
>>> run.summary["status"]
'completed'
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curvfed.deployments.python_api import Run, load, simulate

    __version__: str

__all__ = ["Run", "__version__", "load", "simulate"]

if __name__ != "curvfed":  # as `curvfed.curvfed` each module would exist twice
    raise ImportError(f"import this package as curvfed, not as {__name__}", name=__name__)

_HERE = Path(__file__).resolve().parent
if not (_HERE / "strategies" / "__init__.py").is_file():
    __path__.append(str(_HERE.parent))


def __getattr__(name: str) -> Any:
    """The public names, imported at first use: a client, or the command's help, does not need their
    modules."""
    if name == "__version__":
        from importlib.metadata import version

        return version("curvfed")
    if name in __all__:
        from curvfed.deployments import python_api

        return getattr(python_api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

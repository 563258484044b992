"""torchvision takes seconds to import, and may be built for another torch."""

from importlib import import_module
from importlib.metadata import version
from typing import Any


def torchvision_module(name: str) -> Any:
    """A module of torchvision.

    Parameters
    ----------
    name : str
        Its name below `torchvision`.

    Raises
    ------
    ImportError
        If torchvision is absent, or built for another torch than the installed one.
    """
    try:
        return import_module(f"torchvision.{name}")
    except (RuntimeError, ValueError, AttributeError, OSError) as error:  # by version and platform
        raise ImportError(
            f"torch {version('torch')} and torchvision {version('torchvision')} do not fit each"
            f" other ({error}); install both from the same index of wheels"
        ) from error

"""The start from stored parameters: those of a run, or of another encoder."""

import json
import logging
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from curvfed.server_app.directory.checkpoint import CALIBRATED, FIXED
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.named_arrays import HEAD
from curvfed.strategies.base.statistics import Arrays
from curvfed.tasks.stored_files import check_whole, is_whole, metadata_of

log = logging.getLogger("curvfed")


def warm_start(
    path: str, shared: Arrays, stays: frozenset[str], class_names: tuple[str, ...]
) -> Arrays:
    """The shared parameters, replaced by those in the file.

    Parameters
    ----------
    path : str
        `init-from`: a file in safetensors.
    shared : dict of str to array
        The seeded start.
    stays : frozenset of str
        Names of the parameters that the file may have and that are ignored: personal and fixed
        ones.
    class_names : tuple of str
        The classes of this run; a run with other classes has another classifier.

    Raises
    ------
    ConfigError
        If the file cannot be read, or has a parameter that is not in the model, has another shape,
        or is not finite.
    """
    try:
        data = Path(path).expanduser().read_bytes()
        if is_whole(data) is not None:  # other programs' files have no digest
            check_whole(data)
        stored = load(data)
        metadata = json.loads(metadata_of(data).get("curvfed", "{}"))
        trained_on = tuple(metadata.get("facts", {}).get("class_names", class_names))
    except (OSError, SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f'init-from = "{path}": allowed is a file in safetensors, at the server'
            f" ({type(error).__name__}: {error})",
            key="unreadable",
        ) from None
    stored = {
        name: stored[name] for name in sorted(stored) if not name.startswith((FIXED, CALIBRATED))
    }
    differences = [
        f"{name} (not in the model)" for name in sorted(stored.keys() - shared.keys() - stays)
    ]
    with np.errstate(over="ignore"):
        loaded = {
            name: array.astype(shared[name].dtype)
            for name, array in stored.items()
            if name in shared
        }
    for name, array in loaded.items():
        if array.shape != shared[name].shape:
            differences.append(
                f"{name} (is {list(array.shape)}, the model's {list(shared[name].shape)})"
            )
        elif not np.isfinite(array).all():
            differences.append(f"{name} (has values that are not finite)")
    if trained_on != class_names and any(name.startswith(HEAD) for name in loaded):
        differences.append(
            f"{HEAD}* (is for the classes {', '.join(trained_on)}; this run has"
            f" {', '.join(class_names)})"
        )
    if differences or not loaded:
        text = ", ".join(differences) or "it has none of them"
        raise ConfigError(
            f'init-from = "{path}" differs from what this run shares: {text}; the run shares '
            f"{', '.join(shared) or 'nothing'}",
            key="other-parameters",
        )
    fresh = ", ".join(sorted(shared.keys() - loaded.keys()))
    log.info(
        "%d parameters start from %s%s", len(loaded), path, f"; fresh: {fresh}" if fresh else ""
    )
    return {name: loaded.get(name, array) for name, array in shared.items()}

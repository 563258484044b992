"""The parameters that a run starts from where it does not start anew: those of a run, or of
somebody's own encoder."""

import json
import logging
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from curvfed.server_app.directory.checkpoint import CALIBRATED, FIXED
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.named_arrays import HEAD
from curvfed.tasks.stored_files import check_whole, is_whole, metadata_of

log = logging.getLogger("curvfed")


def warm_start(
    path: str, shared: Arrays, stays: frozenset[str], class_names: tuple[str, ...]
) -> Arrays:
    """The shared parameters, those from the file among them.

    Parameters
    ----------
    path : str
        `init-from`: a file in safetensors.
    shared : dict of str to array
        The seeded start.
    stays : frozenset of str
        Names of the model's other parameters, which are left out: those that stay at the clients,
        and fixed ones.
    class_names : tuple of str
        Of this run; a run whose classes differ has another classifier.

    Raises
    ------
    ConfigError
        Names every parameter that the model has not, has in another shape, or that is not finite.
    """
    try:
        data = Path(path).expanduser().read_bytes()
        if is_whole(data) is not None:  # other programs' files have no digest
            check_whole(data)
        given = load(data)
        about = json.loads(metadata_of(data).get("curvfed", "{}"))
        trained_on = tuple(about.get("facts", {}).get("class_names", class_names))
    except (OSError, SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f'init-from = "{path}": allowed is a file in safetensors, at the server'
            f" ({type(error).__name__}: {error})",
            key="unreadable",
        ) from None
    given = {
        name: given[name] for name in sorted(given) if not name.startswith((FIXED, CALIBRATED))
    }
    wrong = [f"{name} (not in the model)" for name in sorted(given.keys() - shared.keys() - stays)]
    with np.errstate(over="ignore"):
        taken = {
            name: array.astype(shared[name].dtype)
            for name, array in given.items()
            if name in shared
        }
    for name, array in taken.items():
        if array.shape != shared[name].shape:
            wrong.append(f"{name} (is {list(array.shape)}, the model's {list(shared[name].shape)})")
        elif not np.isfinite(array).all():
            wrong.append(f"{name} (has values that are not finite)")
    if trained_on != class_names and any(name.startswith(HEAD) for name in taken):
        wrong.append(
            f"{HEAD}* (is for the classes {', '.join(trained_on)}; this run has"
            f" {', '.join(class_names)})"
        )
    if wrong or not taken:
        differs = ", ".join(wrong) or "it has none of them"
        raise ConfigError(
            f'init-from = "{path}" differs from what this run shares: {differs}; the run shares '
            f"{', '.join(shared) or 'nothing'}",
            key="other-parameters",
        )
    fresh = ", ".join(sorted(shared.keys() - taken.keys()))
    log.info(
        "%d parameters start from %s%s", len(taken), path, f"; fresh: {fresh}" if fresh else ""
    )
    return {name: taken.get(name, array) for name, array in shared.items()}

"""Our side of a comparison of embeddings of a knowledge graph."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import curvfed


def our_scores(
    method: Mapping[str, Any], graph: str, data: Path, **settings: Any
) -> dict[str, float]:
    """The clients' mean reciprocal ranks after our last round, by "val" and "test".

    Parameters
    ----------
    method : mapping
        The keys of the method, as of the run config.
    graph : str
    data : Path
        The folder of the public data sets.
    settings
        Further keys of the run, with underscores.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = curvfed.simulate(
            **method,
            **settings,
            dataset=graph,
            data_dir=str(data),
            optimizer="adam",
            schedule="constant",
            weight_decay=0.0,
            global_every=0,
            report=False,
            results_dir=folder,
            quiet=True,
        )
        metrics = run.summary["metrics"]
    return {"val": metrics["validation"], "test": metrics["mrr"]}

"""The embedding of a run at the server, scored on all links."""

from pathlib import Path

import numpy as np
import torch

from curvfed.extensions.links.client_links import ClientLinks
from curvfed.extensions.links.dataset import LinkDataset
from curvfed.extensions.links.models import Embedding
from curvfed.extensions.links.names import split_names
from curvfed.server_app.directory.array_files import write_npz
from curvfed.strategies.base.figures import GLOBAL_EXAMPLES
from curvfed.strategies.base.statistics import Arrays, named_state
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.config.run_config import RunConfig


class GlobalLinks:
    """An embedding and the links that it is scored on, see
    `curvfed.server_app.global_model.ScoredModel`.

    Parameters
    ----------
    model : Embedding
    links : ClientLinks
        All links.
    class_names : tuple of str
        The names of the federation's entities and relations.
    config : RunConfig
    device : torch.device

    Attributes
    ----------
    figures : dict of str to float
        Further figures of the last score.
    """

    def __init__(
        self,
        model: Embedding,
        links: ClientLinks,
        class_names: tuple[str, ...],
        config: RunConfig,
        device: torch.device,
    ) -> None:
        self._model = model
        self._class_names = class_names
        self._task = LinkDataset.task(config, links, class_names, device, model)
        trivial = self._task.whole_scores(self._task.frequent_tails())
        self._trivial = {"frequent_map": trivial["reconstruction_map"]}
        if "mrr" in trivial:
            self._trivial["global_frequent_mrr"] = trivial["mrr"]
        self._trivial[GLOBAL_EXAMPLES] = self._task.num_tested
        self.figures: dict[str, float] = {}

    def score(self, arrays: Arrays) -> float | None:
        """Hits@1 of the test links, if there are any."""
        load_arrays(arrays, named_state(self._model))
        figures: dict[str, float] = self._task.whole_scores(self._model)
        accuracy = figures.pop("hits_1", None)
        self.figures = {
            name if name == "reconstruction_map" else f"global_{name}": value
            for name, value in figures.items()
        }
        self.figures |= self._trivial
        return accuracy

    def write(self, arrays: Arrays, calibrated: Arrays, folder: Path) -> None:
        """Write `links.npz`, from which the report draws: names, points of the ball or rows, and
        links."""
        load_arrays(arrays, named_state(self._model))
        entities, _ = split_names(self._class_names)
        triples = torch.cat(list(self._task.triples.values()))
        rows = self._model.table()[:, : self._model.num_columns]
        content = {
            "names": np.array(entities),
            "rows": rows.numpy(force=True),
            "triples": triples.numpy(force=True),
            "is_curved": np.array(rows.shape[1] > self._model.entities.shape[1]),
        }
        write_npz(folder / "links.npz", content)

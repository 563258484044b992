"""Initial curvature of a client from its graph, raw or standardised over the clients (FlatLand)."""

from collections.abc import Mapping

import torch
from torch import nn

from curvfed.client_app.data.load import Data
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.methods.flatland import Keys
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.lorentz.curvature import CURVATURE_MAPS, graph_statistics
from curvfed.tasks.graphs.lorentz.ricci import mean_ricci

REACH = 4.0
"""k starts within ±4 standard deviations, beyond which both maps are nearly constant."""


def ricci(data: Data, keys: Keys) -> float:
    """The graph's mean Ricci curvature, of the kind `flatland.curvature-init`.

    Raises
    ------
    DataError
        If the data are not a graph.
    """
    if not isinstance(data, ClientGraph):
        raise DataError(
            f"the data are {data.task}, which have no Ricci curvature", key="not-a-graph"
        )
    return mean_ricci(data, keys.curvature_init, keys.triangles, home() / "cache")


def start_curvature(
    parameters: Mapping[str, nn.Parameter], data: Data, keys: Keys, facts: Facts | None
) -> None:
    """Set k from the graph's curvature, standardised over the clients because the raw value
    saturates the sigmoid.

    With "literal", k is the raw value, which needs no facts about the other clients.
    """
    with torch.no_grad():
        if (statistics := parameters.get("estimator.statistics")) is not None and isinstance(
            data, ClientGraph
        ):
            statistics.copy_(graph_statistics(data))
        if keys.curvature_init == "literal":
            parameters["k"].fill_(ricci(data, keys))
        elif facts is not None and facts.ricci_std > 0:
            deviations = (ricci(data, keys) - facts.ricci_mean) / facts.ricci_std
            deviations = min(max(deviations, -REACH), REACH)
            parameters["k"].fill_(deviations * CURVATURE_MAPS[keys.curvature_map].deviation)

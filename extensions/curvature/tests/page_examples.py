"""The page of `curvfed curvature`, for the tests with a browser."""

from pathlib import Path

import numpy as np

from curvfed.extensions.curvature.commands.graphs import GraphCurvature, write_page
from curvfed.extensions.curvature.distortion import Fit


def of_curvature(folder: Path) -> Path:
    """The page of made-up fits of eleven clients."""
    graphs = []
    for client in range(11):
        curve = {
            float(at): 0.1 + 0.02 * (at + 1 + client / 9) ** 2 for at in np.linspace(-8, 1, 10)
        }
        fits = {
            dim: Fit(-1.0 - client / 9, 0.1 / dim, 0.1 / dim, 0.3 / dim, 0.3 / dim, curve)
            for dim in (2, 10)
        }
        nodes = 200 + 31 * client
        graphs.append(GraphCurvature(client, nodes, nodes, 9.0, -client / 3, 0.1, 0.05, fits))
    return write_page(graphs, [2, 10], "a-graph-with-a-long-name", folder)


PAGES = {"curvature": of_curvature}

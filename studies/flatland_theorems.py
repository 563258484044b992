"""FlatLand's Theorems 1 and 2 on the clients' graphs.

    python -m studies.flatland_theorems --data FOLDER [--page docs/measured/flatland-theorems.md]

writes the page and its two figures; minutes.
"""

import argparse
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.special import digamma
from scipy.stats import spearmanr

import curvfed
from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node

# A client's own model, and what its graph is beside curvatures: no public function has them.
from curvfed.deployments.arguments import read_request
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.extensions.curvature.commands.graphs import GraphCurvature, measure
from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.geometry.arrays import Floats
from curvfed.server_app.report import charts, style
from curvfed.tasks.graphs.inputs import GraphInputs

DATA = {"Cora, 10 clients": ("cora", 10), "Cora, 20 clients": ("cora", 20)}
DATA["Minesweeper, 10 clients"] = ("minesweeper", 10)
DIM = 5
NODES = 300

RUN: dict[str, Any] = {
    "method": "flatland",
    "dataset": "cora",
    "num_supernodes": 10,
    "num_rounds": 100,
    "embedding_dim": 16,
    "dropout": 0.1,
    "flatland.curvature-map": "exp",
}
NEIGHBOURS = 10

ABOUT = """\
# FlatLand's Theorems 1 and 2

    python -m studies.flatland_theorems --data FOLDER

writes this page and its figures.

## Theorem 1: a tailored curvature

The paper: with one curvature −K for all clients, the largest distortion is at least c_d/2 · |R_i − R_j| for every pair,
R the clients' mean Forman curvature; the best curvature of a client is R/(d − 1). c_d > 0 is not given; so no data can
contradict the bound, but they can tell whether R explains what is lost. Here d = 5, the distortion is Kruskal's stress of
the distances between at most 300 nodes, not the largest factor as in the paper. "Loss of a pair" is the larger of its two
distortions at their best common curvature, minus the larger at curvatures of their own.

| clients | rank correlation of Forman and fitted curvature | fitted | R/(d − 1) | \
rank correlation over pairs of R's difference with the larger distortion | with the loss of the pair | \
largest loss (points) | largest c_d (% per unit of R) |
| --- | ---: | --- | --- | ---: | ---: | ---: | ---: |"""

SECOND = """
![Theorem 1](flatland-theorem-1.png)

Left: clients, and the line R/(d − 1). Right: pairs of clients. The search ends at −(16/diameter)². A c_d without meaning,
as where no graph differs, is large.

## Theorem 2: client and time coordinate

The paper: if each client's points are isotropic about the origin, their directions u tell nothing of the client C; the
time x_t does, if its laws differ; and given the curvature the space coordinates add nothing. Where no two clients have the
same curvature, that names the client, so the unconditional I((x_t, x_s); C) is measured instead.

The points are those before the head of FlatLand's network, all nodes of Cora's ten clients, each with its own model:
{settings}. Mutual information in nats by the {neighbours} nearest neighbours (Ross, 2014), an estimate that is too small
in many dimensions; "shuffled" has the clients permuted, "isotropic" the same times with uniform directions, for which the
theorem holds. The clients' entropy H(C) is {entropy:.2f}, their curvatures are {least:.2f} to {most:.2f}.

| points | I(u; C) | I(x_t; C) | I((x_t, x_s); C) |
| --- | ---: | ---: | ---: |"""

THIRD = """
![Theorem 2](flatland-theorem-2.png)

Left: quartiles of the time coordinate by client, whiskers from the 5th to the 95th percentile. Right: the table.

In a trained network u tells the client, so its points are not isotropic, and the theorem's assumption does not hold. Of
isotropic points the true I((x_t, x_s); C) is I(x_t; C): the distance of the two is the error of the estimate.
"""


class Pairs(NamedTuple):
    """Every pair of clients.

    Attributes
    ----------
    difference : array (P,)
        Of their mean Forman curvatures.
    distortion : array (P,)
        The larger of the two at their best common curvature.
    loss : array (P,)
        What it exceeds the larger of the two at curvatures of their own by.
    """

    difference: Floats
    distortion: Floats
    loss: Floats


def pairs_of(graphs: Sequence[GraphCurvature]) -> Pairs:
    """The pairs of clients, in DIM dimensions."""
    rows = []
    for graph, other in itertools.combinations(graphs, 2):
        first = graph.fits[DIM]
        second = other.fits[DIM]
        both = first.curve.keys() & second.curve.keys()
        common = min(max(first.curve[size], second.curve[size]) for size in both)
        own = max(first.distortion, second.distortion)
        rows.append((abs(graph.forman - other.forman), common, common - own))
    return Pairs(*np.array(rows).T)


def mutual_information(points: Floats, clients: NDArray[np.int64]) -> float:
    """I(points; client) in nats, by nearest neighbours; at least 0.

    Parameters
    ----------
    points : array (N, d)
    clients : array (N,)
        Each client with more than NEIGHBOURS points.

    Notes
    -----
    Ross, Mutual information between discrete and continuous data sets (PLoS ONE 2014), Eq. 2.
    """
    # Equal points would have a distance of 0, with other clients' points at it too.
    spread = 1e-9 * np.abs(points).max()
    points = points + spread * np.random.default_rng(0).standard_normal(points.shape)
    every = KDTree(points)
    terms = []
    for client in np.unique(clients):
        mine = points[clients == client]
        # Rounding must not leave out the last neighbour itself.
        reach = KDTree(mine).query(mine, NEIGHBOURS + 1)[0][:, -1] * (1 + 1e-12)
        # Of all points, those up to the last neighbour, without the point itself.
        within = every.query_ball_point(mine, reach, return_length=True) - 1
        terms.append(digamma(within) + digamma(len(mine)))
    mean = float(np.concatenate(terms).mean())
    return max(0.0, float(digamma(len(points)) + digamma(NEIGHBOURS)) - mean)


def embedded(data: Path) -> tuple[Floats, Floats, NDArray[np.int64], list[float]]:
    """Times (N, 1), space coordinates (N, d) and client (N,) of all nodes that are not at the
    origin, and the clients' curvatures, after a run of FlatLand."""
    times = []
    spaces = []
    clients = []
    curvatures = []
    with tempfile.TemporaryDirectory() as folder:
        place: dict[str, Any] = {
            "data_dir": str(data),
            "results_dir": folder,
            "run_name": "theorem",
        }
        curvfed.simulate(**RUN, **place, quiet=True)
        run = TrainedRun.read(Path(folder, "theorem"))
        for client in range(RUN["num_supernodes"]):
            network: Any = model_of(run, client)[0]
            node = Node(partition=client, num_partitions=RUN["num_supernodes"])
            read: list[torch.Tensor] = []
            network.head.register_forward_pre_hook(
                lambda _, inputs, read=read: read.append(inputs[0])
            )
            graph: Any = load_data(run.config, node)
            with torch.no_grad():
                network(GraphInputs.of(graph, torch.device("cpu")))
            space = read[0].double()
            space = space[space.norm(dim=1) > 0]
            radius = -1 / torch.as_tensor(network.curvature).detach().double()
            times.append((space.square().sum(1, keepdim=True) + radius).sqrt().numpy())
            spaces.append(space.numpy())
            clients += [client] * len(space)
            curvatures.append(float(network.curvature))
    return np.concatenate(times), np.concatenate(spaces), np.array(clients), curvatures


def informations(times: Floats, spaces: Floats, clients: NDArray[np.int64]) -> list[float]:
    """I(u; C), I(x_t; C) and I((x_t, x_s); C)."""
    directions = spaces / np.linalg.norm(spaces, axis=1, keepdims=True)
    whole = np.concatenate([times, spaces], axis=1)
    return [mutual_information(points, clients) for points in (directions, times, whole)]


def isotropic(times: Floats, spaces: Floats) -> Floats:
    """Space coordinates of the same lengths in uniform directions."""
    directions: Floats = np.random.default_rng(1).standard_normal(spaces.shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    turned: Floats = directions * np.linalg.norm(spaces, axis=1, keepdims=True)
    return turned


def first_theorem(data: Path, folder: Path) -> list[str]:
    """The rows of the table; draws the figure."""
    rows = []
    figure, (left, right) = style.panels(2)
    keys = []
    for number, (title, (dataset, count)) in enumerate(DATA.items()):
        words = [f"dataset={dataset}", f"data-dir={data}", f"num-supernodes={count}"]
        request = read_request(words)
        measured = [measure(request, client, [DIM], NODES) for client in range(count)]
        graphs = [graph for graph in measured if graph is not None]
        formans = np.array([graph.forman for graph in graphs])
        fitted = np.array([graph.fits[DIM].curvature for graph in graphs])
        pairs = pairs_of(graphs)
        look = {"color": style.PALETTE[number], "marker": style.MARKERS[number]}
        left.plot(formans, fitted, linestyle="none", markersize=5, **look)
        line = np.sort(formans)
        left.plot(line, line / (DIM - 1), color=style.SOFT, linewidth=1.0)
        shares = 100 * pairs.distortion
        right.plot(pairs.difference, shares, linestyle="none", markersize=3, alpha=0.6, **look)
        keys.append(charts.key(title, linestyle="none", **look))
        of_pairs = [
            spearmanr(pairs.difference, values).statistic
            for values in (pairs.distortion, pairs.loss)
        ]
        different = pairs.difference > 0
        constant = (2 * pairs.distortion[different] / pairs.difference[different]).min()
        cells = [
            title,
            f"{spearmanr(formans, fitted).statistic:.2f}",
            f"{fitted.min():.2f} to {fitted.max():.2f}",
            f"{formans.min() / (DIM - 1):.2f} to {formans.max() / (DIM - 1):.2f}",
            *(f"{value:.2f}" for value in of_pairs),
            f"{100 * pairs.loss.max():.1f}",
            f"{100 * constant:.2f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    left.set_yscale("symlog", linthresh=0.01)
    ticks = (0, -0.01, -0.1, -1, -10)
    left.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    charts.name(left, "mean Forman curvature R", "fitted curvature")
    charts.name(right, "|R_i − R_j|", "larger distortion at a common curvature (%)")
    legends.legend(figure, keys)
    style.save(figure, folder / "flatland-theorem-1")
    return rows


def second_theorem(data: Path, folder: Path) -> tuple[list[str], Mapping[str, Any]]:
    """The rows of the table, and what the text says about the run; draws the figure."""
    times, spaces, clients, curvatures = embedded(data)
    shuffled = np.random.default_rng(2).permutation(clients)
    values = {
        "FlatLand": informations(times, spaces, clients),
        "shuffled": informations(times, spaces, shuffled),
        "isotropic": informations(times, isotropic(times, spaces), clients),
    }
    rows = [
        f"| {name} | {' | '.join(f'{value:.2f}' for value in of_name)} |"
        for name, of_name in values.items()
    ]
    shares = np.bincount(clients) / len(clients)
    entropy = -float((shares * np.log(shares)).sum())
    figure, (left, right) = style.panels(2)
    numbers = np.unique(clients)
    left.boxplot(
        [times[clients == number, 0] for number in numbers],
        positions=numbers,
        whis=(5, 95),
        showfliers=False,
    )
    charts.name(left, "client", "time coordinate")
    keys = []
    for number, (name, of_name) in enumerate(values.items()):
        look = style.Look.of(number)
        places = np.arange(3) + 0.27 * (number - 1)
        right.bar(places, of_name, 0.25, color=look.tint, edgecolor=style.PALETTE[number])
        keys.append(charts.key(name, color=style.PALETTE[number], linewidth=6))
    right.axhline(entropy, color=style.SOFT, linestyle=":")
    right.set_xticks(range(3), ["u", "time", "time and space"])
    charts.name(right, "", "information about the client (nats)")
    legends.legend(figure, keys)
    style.save(figure, folder / "flatland-theorem-2")
    settings = " ".join(f"{key.replace('_', '-')}={value}" for key, value in RUN.items())
    return rows, {
        "settings": f"`{settings}`",
        "neighbours": NEIGHBOURS,
        "entropy": entropy,
        "least": min(curvatures),
        "most": max(curvatures),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page and the figures."""
    parser = argparse.ArgumentParser(prog="python -m studies.flatland_theorems")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--page", type=Path, default=Path("docs/measured/flatland-theorems.md"))
    options = parser.parse_args(arguments)
    folder = options.page.parent
    with style.applied():
        first = first_theorem(options.data, folder)
        second, words = second_theorem(options.data, folder)
    lines = [ABOUT, *first, SECOND.format(**words), *second, THIRD]
    options.page.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

"""FlatLand's Theorems 1 and 2 on the clients' graphs, and its rate by `studies.flatland_rate`.

    python -m studies.flatland_theorems --data FOLDER [--page docs/measured/flatland-theorems.md]

writes the page and its three figures; minutes.
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
from studies import flatland_rate

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
# FlatLand's Theorems 1 and 2, and its rate

    python -m studies.flatland_theorems --data FOLDER

writes this page.

## Theorem 1: a tailored curvature

The paper: at one curvature −K for all, the largest distortion is at least c_d/2 · |R_i − R_j| for every pair of clients, R
their mean Forman curvatures; R/(d − 1) is best for a client. No data contradict it, as c_d is not given; but does R explain
it? Here d = 5, the distortion is Kruskal's stress of at most 300 nodes, and a pair loses the larger of its distortions
at the best common curvature minus the larger at their own.

| clients | rank correlation of Forman and fitted curvature | fitted | R/(d − 1) | \
of R's difference and larger distortion | and loss of pairs | \
largest loss (points) | largest c_d (% per unit of R) |
| --- | ---: | --- | --- | ---: | ---: | ---: | ---: |"""

SECOND = """
![Theorem 1](flatland-theorem-1.png)

Left: clients, and R/(d − 1). Right: pairs. Graphs that are alike tell no c_d.

## Theorem 2: client and time coordinate

The paper: of points isotropic about the origin the directions u tell nothing of the client C, the time x_t does, and given
the curvature the rest adds nothing. That condition is left out here: the curvature names the client.

Points before the head of Cora's ten clients' own models: {settings}. Nats by {neighbours} nearest
neighbours (Ross, 2014), too few in many dimensions. H(C) is {entropy:.2f}, curvatures are {least:.2f} to {most:.2f}.

| points | I(u; C) | I(x_t; C) | I((x_t, x_s); C) |
| --- | ---: | ---: | ---: |"""

THIRD = """
![Theorem 2](flatland-theorem-2.png)

Left: times by client. Trained points are not isotropic: u tells the client. Of isotropic ones the true I((x_t, x_s); C) is
I(x_t; C), so they differ by the estimate's error.

## Appendix D.4: O(1/T)

Ten clients classify points by m x_t + M x_s (Eq. 4) with an L2 penalty: strongly convex. A round is five steps on examples
drawn with replacement, at 2/(μ(γ + t)) as in Li et al. (2020) or at its start: means of {seeds} runs; the slope is that of
log gap over log T from T = {first:,} on.
"""

FOURTH = """
![Rate](flatland-rate.png)

Right: D.4's own case, one full step at 1/L a round, below 2L(ℓ⁰ − ℓ*)/T, its Eq. 32 mended.
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
        rate = flatland_rate.draw(folder)
    of_rate = {"seeds": flatland_rate.SEEDS, "first": flatland_rate.ROUNDS // flatland_rate.LAST}
    lines = [ABOUT, *first, SECOND.format(**words), *second, THIRD.format(**of_rate), *rate, FOURTH]
    options.page.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

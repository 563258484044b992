"""Work of any size: functions that make what a curve of `benchmarks.growth.curves` times, everything else set up before."""

import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable

import numpy as np
import torch

from curvfed.client_app.app import app as client_app
from curvfed.client_app.live import forget_all
from curvfed.deployments.inprocess import InProcessGrid, simulated_nodes
from curvfed.geometry.curvature import forman_ricci
from curvfed.geometry.hull import convex_hull
from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.server_app.meeting import meet
from curvfed.server_app.results import RunDirectory
from curvfed.server_app.rounds import Rounds
from curvfed.strategies.base.aggregation import Average, Replies, Update
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.deviations import gram
from curvfed.strategies.base.training import make_optimizer, train
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.model_spec import build_model, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.hull.codec import encode_hulls
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.hull.public import Public
from curvfed.strategies.hull.roots import prime_above
from curvfed.strategies.hull.symbols import SPARE, decode, encode
from curvfed.strategies.methods.hyperfed import Consistent
from curvfed.strategies.secure_sum import SUM_PRIME, Collector, Member, Session, checksum
from curvfed.strategies.wire.arrays import decode_arrays, encode_arrays
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.graphs.client_graph import ClientGraph
from curvfed.tasks.graphs.client_task import client_task
from curvfed.tasks.graphs.partition import clean_edges, metis_parts
from curvfed.tasks.points.uniform import uniform_points

Call = Callable[[], object]

MODEL = 25_000
"""Parameters of a client's model, where the clients grow: about as many as a small GCN has."""
MASKED = 2_500
"""Entries of a masked vector."""
MODELS = 5
"""Where the parameters grow."""
PIECES = 50
"""Arrays of a model."""
MEAN_DEGREE = 10
"""Where the nodes of a graph grow."""
NODES = 10_000
"""Where its edges grow."""
FEATURES, CLASSES, PARTS = 32, 7, 10
BITS = 24
"""Of the bins' numbers: 10⁷ bins, as ε = 0.01 has within a radius of 0.999."""
RADIUS = 0.95


def average(clients: int) -> Call:
    """The average of so many models."""
    start, replies = _replies(clients, MODEL)
    return lambda: Average(start).aggregate(replies)


def consistent(clients: int) -> Call:
    """Consistent aggregation of so many models, by HyperFed's defaults."""
    keys = RunConfig().hyperfed
    start, replies = _replies(clients, MODEL)
    return lambda: Consistent(start, keys.radius, keys.deviations).aggregate(replies)


def secure_sum(clients: int) -> Call:
    """All that a server does for one secure sum that a tenth leaves: the members' messages are there from the start."""
    session = Session("growth", "sum", 0, SUM_PRIME, MASKED, tuple(range(clients)))
    members = {p: Member.begin(session, p) for p in session.clients}
    keys = {p: member.keys() for p, member in members.items()}
    first = Collector(session)
    for p, one in keys.items():
        first.take_keys(p, one)
    first.close_keys()
    shares = {p: member.share(first.keys) for p, member in members.items()}
    for p, letters in shares.items():
        first.take_shares(p, letters)
    first.close_shares()
    rng, there = np.random.default_rng(0), session.clients[clients // 10 :]
    masked = {}
    for p in there:
        members[p].deliver(first.delivery(p))
        vector = members[p].mask(rng.integers(0, SUM_PRIME, MASKED, dtype=np.uint64))
        masked[p] = vector, checksum(vector, session, p)
    revealed = {p: members[p].unmask(there) for p in there}

    def server() -> object:
        collector = Collector(session)
        for p, one in keys.items():
            collector.take_keys(p, one)
        collector.close_keys()
        for p, letters in shares.items():
            collector.take_shares(p, letters)
        collector.close_shares()
        for p in session.clients:
            collector.delivery(p)
        for p, (vector, check) in masked.items():
            collector.take_masked(p, vector, check)
        collector.close_masked()
        for p, found in revealed.items():
            collector.take_revealed(p, found)
        return collector.total()

    return server


def meeting(clients: int) -> Call:
    """Clients on `trees` say who they are, in this process, and the server writes down what they told."""
    config, grid = _trees("meeting", clients)

    def met() -> None:
        forget_all()
        meet(grid, config, config.run_name).record()

    return met


def whole_round(clients: int) -> Call:
    """A round of FlatLand on `trees` in this process, in which all clients train."""
    folder = tempfile.mkdtemp()
    config, grid = _trees("round", clients, folder)
    directory = RunDirectory.open(config)
    run = _Stepped(config, grid, directory)
    weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
    weakref.finalize(run, directory.lock.release)
    forget_all()
    run.run()
    return run.step


class _Stepped(Rounds):
    """A run of no rounds, in which clients meet and are scored, and then of one after the other."""

    def step(self) -> None:
        """The next round."""
        self._round(self.state.round + 1)


def message(parameters: int) -> Call:
    """A model into a record, and out of it."""
    arrays = _model(parameters, np.random.default_rng(0))
    return lambda: decode_arrays(encode_arrays(arrays))


def average_of_few(parameters: int) -> Call:
    """The average of `MODELS` models."""
    start, replies = _replies(MODELS, parameters)
    return lambda: Average(start).aggregate(replies)


def gram_of_few(parameters: int) -> Call:
    """Inner products of the deviations of `MODELS` models."""
    start, replies = _replies(MODELS, parameters)
    models = [one.arrays for one in replies.values()]
    return lambda: gram(start, models)


def ricci_by_nodes(nodes: int) -> Call:
    """Curvatures of all edges."""
    return _ricci(nodes, nodes * MEAN_DEGREE // 2)


def ricci_by_edges(edges: int) -> Call:
    """The same, between `NODES` nodes."""
    return _ricci(NODES, edges)


def step_by_nodes(nodes: int) -> Call:
    """A training step of FlatLand's network, all nodes at once."""
    return _step(nodes, nodes * MEAN_DEGREE // 2)


def step_by_edges(edges: int) -> Call:
    """The same, on `NODES` nodes."""
    return _step(NODES, edges)


def parts_by_nodes(nodes: int) -> Call:
    """The graph cut into `PARTS` parts by METIS, after its edges were cleaned."""
    return _parts(nodes, nodes * MEAN_DEGREE // 2)


def parts_by_edges(edges: int) -> Call:
    """The same, of `NODES` nodes."""
    return _parts(NODES, edges)


def hull(points: int) -> Call:
    """The convex hull."""
    given = _points(points)
    return lambda: convex_hull(given, -1.0)


def quantise(points: int) -> Call:
    """All points to their bins."""
    given, quantizer = _points(points), PoincareQuantizer(0.01, 0.999, -1.0)
    return lambda: quantizer.encode(given)


def hull_client(points: int) -> Call:
    """What a client of `hull` does with its points before it masks: hulls of two classes, bins, symbols."""
    given, labels = _points(points), np.random.default_rng(1).integers(0, 2, points)
    public = Public(curvature=-1.0, radius=0.999, epsilon=0.01, num_classes=2, num_clients=10, cap=128)
    return lambda: encode_hulls(local_hulls(given, labels, public).hulls, 0, [0, 1], public)


def decode_bins(bins: int) -> Call:
    """Occupied bins and their values from a sum of symbols."""
    rng, prime = np.random.default_rng(0), prime_above(1 << BITS)
    places = rng.permutation(np.unique(rng.integers(1, 1 << BITS, 2 * bins, dtype=np.uint64)))[:bins]
    symbols = encode(places, rng.integers(1, prime, bins, dtype=np.uint64), 2 * bins + SPARE, prime)
    return lambda: decode(symbols, prime, 1 << BITS, bins)


def _model(parameters: int, rng: np.random.Generator) -> Arrays:
    pieces = np.array_split(rng.standard_normal(parameters, dtype=np.float32), PIECES)
    return {f"{number}.weight": piece for number, piece in enumerate(pieces)}


def _replies(models: int, parameters: int) -> tuple[Arrays, Replies]:
    """A start, and models of clients with as many examples each."""
    rng = np.random.default_rng(0)
    return _model(parameters, rng), {p: Update(10, _model(parameters, rng)) for p in range(models)}


def _trees(name: str, clients: int, folder: str = "") -> tuple[RunConfig, InProcessGrid]:
    logging.getLogger("curvfed").addHandler(logging.NullHandler())
    own = {"dataset": "trees", "results-dir": folder, "run-name": name, "num-rounds": 0}
    config = defaults() | own
    return parse(config), InProcessGrid(client_app, config, simulated_nodes(clients))


def _edges(nodes: int, edges: int) -> np.ndarray:
    """Pairs drawn at random, (2, edges): a few loops and doubled ones among them."""
    return np.random.default_rng(0).integers(0, nodes, (2, edges))


def _ricci(nodes: int, edges: int) -> Call:
    clean = torch.from_numpy(clean_edges(_edges(nodes, edges), nodes))
    return lambda: forman_ricci(clean, nodes)


def _parts(nodes: int, edges: int) -> Call:
    raw = _edges(nodes, edges)
    return lambda: metis_parts(clean_edges(raw, nodes), nodes, PARTS, 0)


def _step(nodes: int, edges: int) -> Call:
    generator = torch.Generator().manual_seed(0)
    role = torch.randint(3, (nodes,), generator=generator)
    names = tuple(map(str, range(CLASSES)))
    graph = ClientGraph(
        features=torch.randn(nodes, FEATURES, generator=generator),
        edge_index=torch.from_numpy(clean_edges(_edges(nodes, edges), nodes)),
        labels=torch.randint(CLASSES, (nodes,), generator=generator),
        train=role == 0, val=role == 1, test=role == 2, class_names=names,
        metric="accuracy", forman=0.0, forman_plain=0.0, digest="", partition_digest="",
    )  # fmt: skip
    config = settled(parse({"method": "flatland"}), "nodes")
    task = client_task(graph, names, torch.device("cpu"))
    model = build_model(model_spec(config, Facts("nodes", FEATURES, names)), 0)
    optimizer = make_optimizer(dict(model.named_parameters()), config)
    return lambda: train(model, task, optimizer, 1)


def _points(num: int) -> np.ndarray:
    return uniform_points(num, RADIUS, -1.0, np.random.default_rng(0))

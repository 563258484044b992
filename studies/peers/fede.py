"""Federated knowledge graphs by FedE's own server and clients, and by ours.

    python -m studies.peers.fede --data FOLDER --clone FOLDER [--graphs umls kinship]

FOLDER of `--data` is that of `studies.knowledge_graphs`; the other is a clone of AnselCmy/FedE.
Same on both sides: clients by relation with their links and splits, numbers of an entity, rounds,
epochs, batch size, Adam, the number of negatives, inverse relations, and the ranks of heads and
tails among a client's own entities, which our code counts after the clients' last training. Each
side takes the rate of the best validation score at seed 0, and then runs with other seeds. Each run
adds a row to `docs/measured/fede.csv`.

FedE's own are its loss (self-adversarial negative sampling with a margin of 10; ours is the
cross-entropy of the right tail), its negatives, which are entities of all clients, its initial
values, the absolute values of TransE's distance, and the mean over clients without weights.
"""

import argparse
import itertools
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from benchmarks.tables import read_csv, write_csv
from curvfed.extensions.links.client_task import LinkTask
from curvfed.extensions.links.dataset import LinkDataset
from curvfed.extensions.links.names import split_names, stated_names
from curvfed.extensions.links.ranking import KnownLinks, link_scores, make_queries
from curvfed.extensions.links.split import LinkSpec
from studies.peers.job import check_clone, modules, seed_all
from studies.peers.our_links import our_scores

TABLE = Path(__file__).parents[2] / "docs" / "measured" / "fede.csv"
HEADS = ("graph", "model", "side", "rate", "seed", "validation, %", "mean reciprocal rank, %")
HOLDS = ("fede.py", "kge_model.py", "dataloader.py")

CLIENTS = 5
DIMENSION = 32
ROUNDS = 20
EPOCHS = 2
BATCH = 256
NEGATIVES = 50
RATES = (0.003, 0.01, 0.03)
TUNING_SEED = 0
SEEDS = (1, 2, 3)

MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "TransE": (
        {"hidden_dim": DIMENSION},
        {"method": "links", "links.relations": "translation", "links.curvature": 0.0},
    ),
    "ComplEx": ({"hidden_dim": DIMENSION // 2}, {"method": "links-complex"}),
    "RotatE": ({"hidden_dim": DIMENSION // 2}, {"method": "links-rotate"}),
}
"""FedE's arguments and our keys; both have `DIMENSION` numbers for an entity."""

BY_LENGTHS = "TransE by lengths"
"""FedE's TransE with our distance, which is the length of a difference in place of the sum of its
absolute values; it runs on their side alone."""


class TheirModel:
    """A client's entities and relations of FedE as a scorer of tails."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @torch.no_grad()
    def blocks(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Iterator[Tensor]:
        """See `curvfed.extensions.links.models.Embedding`."""
        client = self._client
        for head, relation in zip(heads.tolist(), relations.tolist(), strict=True):
            question = torch.tensor([[head, relation, 0]])
            scores = client.kge_model((question, None), client.rel_embed, client.ent_embed)
            yield scores[:, tails]


def tasks(graph: str, data: Path, seed: int) -> list[tuple[LinkTask, KnownLinks]]:
    """Our clients, with their rows in the numbering of all, and their right links."""
    spec = LinkSpec(graph, data, partition="relations", seed=seed, reciprocal=True)
    parts = [LinkDataset(spec).part(number, CLIENTS) for number in range(CLIENTS)]
    named = [split_names(part.class_names) for part in parts]
    entities = sorted({name for names, _ in named for name in names})
    relations = sorted({name for _, names in named for name in names})
    names = stated_names(entities, relations)
    clients = []
    for part in parts:
        task = LinkTask(part, names, torch.device("cpu"), BATCH, NEGATIVES, seed)
        right = part.right_links(torch.cat(list(task.triples.values())), names)
        clients.append((task, right))
    return clients


def _by_lengths(model: Any, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
    return model.gamma.item() - (heads + relations - tails).norm(dim=2)


def directed(triples: Tensor, num_relations: int) -> Tensor:
    """Links and their inverses (2n, 3)."""
    inverses = triples.flip(1).clone()
    inverses[:, 1] += num_relations
    return torch.cat([triples, inverses])


def theirs(name: str, graph: str, data: Path, rate: float, seed: int) -> dict[str, float]:
    """The clients' mean scores after the last round of FedE."""
    clients = tasks(graph, data, seed)
    vars(np)["in1d"] = np.isin  # under the name that FedE calls it by
    fede, loader, kge = modules("fede", "dataloader", "kge_model")
    seed_all(seed)
    model, _, variant = name.partition(" ")
    if variant:
        kge.KGEModel.TransE = _by_lengths
    arguments, _ = MODELS[model]
    args = Namespace(
        model=model,
        gamma=10.0,
        epsilon=2.0,
        gpu="cpu",
        lr=rate,
        local_epoch=EPOCHS,
        adversarial_temperature=1.0,
        **arguments,
    )
    first, _ = clients[0]
    num_entities = len(first.counts["entities"])
    num_relations = len(first.counts["relations"]) // 2
    width = args.hidden_dim * (2 if model == "ComplEx" else 1)
    bound = (args.gamma + args.epsilon) / args.hidden_dim
    trained = []
    for task, _ in clients:
        links = directed(task.triples["train"], num_relations).numpy()
        batches = DataLoader(
            loader.TrainDataset(links, num_entities, NEGATIVES),
            2 * BATCH,
            shuffle=True,
            collate_fn=loader.TrainDataset.collate_fn,
        )
        rows = torch.empty(2 * num_relations, width).uniform_(-bound, bound).requires_grad_()
        trained.append(fede.Client(args, 0, None, batches, None, None, rows))
    server = fede.Server(args, num_entities)
    has_rows = torch.stack([(task.counts["entities"] > 0).float() for task, _ in clients])
    for number in range(ROUNDS):
        for client in trained:
            client.ent_embed = server.send_emb()
            client.client_update()
        if number < ROUNDS - 1:
            server.aggregation(trained, has_rows.clone())
    scores: dict[str, list[float]] = {"val": [], "test": []}
    for (task, right), client in zip(clients, trained, strict=True):
        scorer: Any = TheirModel(client)
        for part in scores:
            queries = make_queries(task.triples[part], task.entities, right, seed)
            if queries is not None:
                scores[part].append(link_scores(scorer, queries)["mrr"])
    return {part: float(np.mean(values)) for part, values in scores.items()}


def ours(name: str, graph: str, data: Path, rate: float, seed: int) -> dict[str, float]:
    """The clients' mean scores after our last round."""
    _, of_model = MODELS[name]
    keys = of_model | {"links.negatives": NEGATIVES, "links.reciprocal": True}
    return our_scores(
        keys,
        graph,
        data,
        partition="relations",
        embedding_dim=DIMENSION,
        num_supernodes=CLIENTS,
        num_rounds=ROUNDS,
        local_epochs=EPOCHS,
        batch_size=BATCH,
        learning_rate=rate,
        seed=seed,
    )


def main() -> None:
    """Make the missing runs, and print each side's mean and deviation at its best rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--clone", type=Path, required=True)
    parser.add_argument("--graphs", nargs="+", default=["umls", "kinship"])
    options = parser.parse_args()
    check_clone(options.clone, HOLDS)
    sys.path.insert(0, str(options.clone.resolve()))
    pairs = [*itertools.product(MODELS, (theirs, ours)), (BY_LENGTHS, theirs)]
    for graph, (name, side) in itertools.product(options.graphs, pairs):
        tuned = {rate: row_of(side, graph, name, rate, TUNING_SEED, options.data) for rate in RATES}
        rate = max(RATES, key=lambda rate: float(tuned[rate][-2]))
        values = []
        for seed in SEEDS:
            row = row_of(side, graph, name, rate, seed, options.data)
            values.append(float(row[-1]))
        spread = statistics.stdev(values)
        print(f"{graph}, {name}, {side.__name__}: {statistics.mean(values):.1f} ± {spread:.1f}")


def row_of(
    side: Callable[..., dict[str, float]], graph: str, name: str, rate: float, seed: int, data: Path
) -> list[str]:
    """The row of a run, which is made if the table lacks it."""
    rows = read_csv(TABLE) if TABLE.exists() else []
    key = [graph, name, side.__name__, str(rate), str(seed)]
    for row in rows:
        if row[: len(key)] == key:
            return row
    scores = side(name, graph, data, rate, seed)
    rows.append([*key, *(f"{100 * scores[part]:.1f}" for part in ("val", "test"))])
    write_csv(TABLE, HEADS, rows)
    print(*rows[-1], sep=", ", flush=True)
    return rows[-1]


if __name__ == "__main__":
    main()

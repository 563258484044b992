"""One client's knowledge graph by PyKEEN's models and training loop, and by ours.

    python -m studies.peers.pykeen --data FOLDER [--graphs umls kinship]

FOLDER is that of `studies.knowledge_graphs`; PyKEEN is a package beside this one. Same on both
sides: links and their split, numbers of an entity, epochs, batch size, Adam, negatives of the tail
without right ones, inverse relations, cross-entropy of the right tail among them (InfoNCE without a
margin), and the ranks of heads and tails, which our code counts. Of the rates each side takes that
of the best validation score. Each run adds a row to `docs/measured/pykeen.csv`.

TransE has no constraint: with entities of length 1, PyKEEN's default, this loss cannot tell tails
apart (40 epochs at a rate of .01: 66.4 on UMLS, ours without a constraint 87.2). PyKEEN's own are
its initial values, and RotatE's norm, which is that of the whole vector; ours is a sum of absolute
values, as its authors write.
"""

import argparse
import itertools
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.tables import read_csv, write_csv
from curvfed.extensions.links.client_links import ClientLinks
from curvfed.extensions.links.client_task import LinkTask
from curvfed.extensions.links.dataset import LinkDataset
from curvfed.extensions.links.ranking import link_scores, make_queries
from curvfed.extensions.links.split import LinkSpec
from studies.peers.our_links import our_scores

TABLE = Path(__file__).parents[2] / "docs" / "measured" / "pykeen.csv"
HEADS = ("graph", "model", "side", "rate", "seed", "validation, %", "mean reciprocal rank, %")

DIMENSION = 32
EPOCHS = 20
BATCH = 256
NEGATIVES = 20
RATES = (0.003, 0.01, 0.03)
SEEDS = (0,)

PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "TransE": (
        {"embedding_dim": DIMENSION, "scoring_fct_norm": 2, "entity_constrainer": None},
        {"method": "links", "links.relations": "translation", "links.curvature": 0.0},
    ),
    "MuRE": (
        {"embedding_dim": DIMENSION - 1},
        {
            "method": "links",
            "links.relations": "diagonal",
            "links.curvature": 0.0,
            "links.score": "squared",
            "links.bias": True,
        },
    ),
    "ComplEx": ({"embedding_dim": DIMENSION // 2}, {"method": "links-complex"}),
    "RotatE": ({"embedding_dim": DIMENSION // 2}, {"method": "links-rotate"}),
}
"""PyKEEN's model, its arguments, and our keys; both have `DIMENSION` numbers for an entity."""


class TheirModel:
    """A model of PyKEEN as a scorer of tails, of heads by inverse relations."""

    def __init__(self, model: Any, num_relations: int) -> None:
        self._model = model
        self._num_relations = num_relations

    @torch.no_grad()
    def blocks(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Iterator[Tensor]:
        """See `curvfed.extensions.links.models.Embedding`."""
        for head, relation in zip(heads.tolist(), relations.tolist(), strict=True):
            if relation < self._num_relations:
                scores = self._model.predict_t(torch.tensor([[head, relation]]))
            else:
                known = torch.tensor([[relation - self._num_relations, head]])
                scores = self._model.predict_h(known)
            yield scores[:, tails]


def theirs(name: str, links: ClientLinks, rate: float, seed: int) -> dict[str, float]:
    """The scores of a model of PyKEEN after training."""
    from pykeen.losses import InfoNCELoss
    from pykeen.models import model_resolver
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    task = LinkTask(links, links.class_names, torch.device("cpu"), BATCH, NEGATIVES, seed)
    num_entities = len(task.counts["entities"])
    num_relations = len(task.counts["relations"]) // 2
    factory = CoreTriplesFactory(
        task.triples["train"], num_entities, num_relations, create_inverse_triples=True
    )
    arguments, _ = PAIRS[name]
    model = model_resolver.make(
        name,
        triples_factory=factory,
        random_seed=seed,
        loss=InfoNCELoss(margin=0.0, log_adversarial_temperature=0.0),
        **arguments,
    )
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=torch.optim.Adam(model.get_grad_params(), lr=rate),
        negative_sampler="basic",
        negative_sampler_kwargs={
            "num_negs_per_pos": NEGATIVES,
            "corruption_scheme": ("tail",),
            "filtered": True,
        },
    )
    loop.train(
        factory, num_epochs=EPOCHS, batch_size=2 * BATCH, use_tqdm=False, use_tqdm_batch=False
    )
    model.eval()
    right = links.right_links(torch.cat(list(task.triples.values())), links.class_names)
    scorer: Any = TheirModel(model, num_relations)
    scores = {}
    for part in ("val", "test"):
        queries = make_queries(task.triples[part], task.entities, right, seed)
        scores[part] = link_scores(scorer, queries)["mrr"]
    return scores


def ours(name: str, graph: str, data: Path, rate: float, seed: int) -> dict[str, float]:
    """The scores of our model after training."""
    _, of_pair = PAIRS[name]
    keys = of_pair | {"links.negatives": NEGATIVES, "links.reciprocal": True}
    return our_scores(
        keys,
        graph,
        data,
        embedding_dim=DIMENSION,
        num_supernodes=1,
        num_rounds=EPOCHS,
        local_epochs=1,
        batch_size=BATCH,
        learning_rate=rate,
        seed=seed,
    )


def main() -> None:
    """Make the missing runs, and print the best of each side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--graphs", nargs="+", default=["umls", "kinship"])
    options = parser.parse_args()
    rows = read_csv(TABLE) if TABLE.exists() else []
    axes = (options.graphs, PAIRS, SEEDS, RATES, ("theirs", "ours"))
    for graph, name, seed, rate, side in itertools.product(*axes):
        key = [graph, name, side, str(rate), str(seed)]
        if key in [row[: len(key)] for row in rows]:
            continue
        if side == "ours":
            scores = ours(name, graph, options.data, rate, seed)
        else:
            links = LinkDataset(LinkSpec(graph, options.data, reciprocal=True)).part(0, 1)
            scores = theirs(name, links, rate, seed)
        rows.append([*key, *(f"{100 * scores[part]:.1f}" for part in ("val", "test"))])
        write_csv(TABLE, HEADS, rows)
        print(*rows[-1], sep=", ", flush=True)
    for graph, name, side in itertools.product(options.graphs, PAIRS, ("theirs", "ours")):
        values = []
        for seed in SEEDS:
            runs = [row for row in rows if row[:3] + row[4:5] == [graph, name, side, str(seed)]]
            values.append(float(max(runs, key=lambda row: float(row[5]))[6]))
        print(f"{graph}, {name}, {side}: {statistics.mean(values):.1f}")


if __name__ == "__main__":
    main()

"""Links as a kind of data: the answers that the core needs before it imports other code of
theirs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from curvfed.extensions.links.foreign import foreign
from curvfed.extensions.links.formats import FORMATS, UNCLEAR
from curvfed.extensions.links.names import RELATION, SPACE_MODELS
from curvfed.extensions.links.sources import LINK_SOURCES
from curvfed.extensions.links.tables import FILES_HINT
from curvfed.extensions.links.unranked import MOST_SCORED, NUM_UNRANKED, UNFIT, unfit_tests
from curvfed.tasks.kind import Comparison, Files, Kind, Words

UNRANKED = 0.1
"""Largest share of test links without a rank that does not cause a warning."""


class LinkKind(Kind):
    """The answers about links."""

    def sizes_of(self, num_features: int, shape: str, names: Sequence[str]) -> str:
        """Whether a client names relations: all clients do, or none."""
        has_relations = any(name.startswith(RELATION) for name in names)
        return " with relations" if has_relations else " without relations"

    def warning(self, statistics: Iterable[Mapping[str, Any]]) -> str:
        """Why figures of the test links mislead."""
        return "; ".join(unfit_tests(statistics, UNRANKED))

    def remedy_below_trivial(self, run: Any) -> str:
        """The closure of direct parents, which edges of a graph do not have, or more rounds."""
        from curvfed.tasks.registry import partitioned_kind  # imports the kinds of data

        is_graph = partitioned_kind("links", run.dataset, run.data_path) != "links"
        if is_graph or run.table("links").closure:
            return "raise num-rounds"
        return (
            "where files name direct parents alone, held-out links cannot be predicted:"
            " links.closure=true adds the links to all ancestors; else raise num-rounds"
        )

    def num_scored(self, statistics: Mapping[str, Any]) -> int:
        """The number of test links that are ranked."""
        return min(int(statistics["num_test"] - statistics[NUM_UNRANKED]), MOST_SCORED)

    def is_measured_by_figures(self, run: Any) -> bool:
        """Links that a run learned are given back, which predicts none."""
        return not run.table("links").hold_out


KIND = LinkKind(
    parts={
        "dataset": "curvfed.extensions.links.dataset:DATASET",
        "memory": "curvfed.extensions.links.memory:links_in_memory",
        "figures": "curvfed.extensions.links.figures:FIGURES",
        "global-model": "curvfed.extensions.links.global_links:GlobalLinks",
        "predict": "curvfed.extensions.links.commands.predict:predict_links",
        "expectation": "curvfed.extensions.links.commands.expectation:expectation",
    },
    built_in="balanced-tree",
    has_classes=False,
    models=(*SPACE_MODELS, "complex", "rotate"),
    default_models={"flat": "normal", "hyperbolic": "normal"},
    partitions=("branches", "relations", "louvain", "random"),
    unread=("dropout", "normalize", "min-client-size"),
    defaults={
        "local_epochs": 2,
        "batch_size": 256,
        "optimizer": "adamw",
        "learning_rate": 0.1,
        "schedule": "inverse",
        "decay_every": 20,
        "embedding_dim": 10,
        "partition": "branches",
        "train_size": 0.8,
        "test_size": 0.1,
        "fine_tune_epochs": 0,
        "clip_norm": 0.0,
    },
    num_features=1,
    max_classes=1_000_000,
    reads_test_data=True,
    tables=("links",),
    made_of=("nodes",),
    trivial={"mrr": "frequent_mrr"},
    arrays_file="links.npz",
    before_keys={"links.trained-ends": False},
    test_counts=UNFIT,
    words=Words(
        names="entities or relations",
        use=(
            "Distances of entities, and likely tails of a head, among the entities of the clients"
            " alone.\n`links.npz` has their names and rows."
        ),
        task="link-prediction",
        unscored=(
            "nothing measures this run: no client trains both entities of a test link; give the"
            " clients more links, or more of them to test (test-size, or the test file of a folder)"
        ),
    ),
    files=Files(
        sources=LINK_SOURCES,
        formats=FORMATS,
        unclear=UNCLEAR,
        endings=(".pt", ".pth", ".csv", ".tsv", ".npz", ".obo", ".obo.gz", ""),
        hint=FILES_HINT,
        memory_hint=(
            "links as a list of (head, tail) or (head, relation, tail), a DataFrame of such"
            " columns, a graph of networkx, or for a method of links alone a Data of PyTorch"
            " Geometric with edge_index"
        ),
        foreign=foreign,
    ),
    comparison=Comparison(
        curved="links",
        personal="The scores rank the entities of a client alone; score=global ranks all entities,"
        " where another method may be the best.",
        methods=("local", "links", "links-inner", "links-squared"),
        rivals={
            "links-inner": {
                "method": "links",
                "links.curvature": 0.0,
                "links.score": "inner",
                "links.bias": True,
            },
            "links-squared": {
                "method": "links",
                "links.curvature": 0.0,
                "links.score": "squared",
                "links.bias": True,
            },
        },
        recall={"links.hold-out": False},
    ),
)

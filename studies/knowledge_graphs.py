"""Knowledge graphs, heads and tails predicted: relations as translations, factors and rotations in
flat and in hyperbolic space, beside ComplEx, RotatE and the most frequent answers.

    python -m studies.knowledge_graphs --data FOLDER [--graphs umls kinship] [--only relations]

FOLDER holds the folders umls, kinship and wn18rr. Each run adds a row to
`docs/measured/knowledge-graphs.csv`, and runs whose row is there are not made again. Of the rates
the printed table has that of the best validation score. `--only` names a partition.
"""

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import curvfed
from benchmarks.tables import read_csv, table_lines, write_csv

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "knowledge-graphs.csv"

GRAPHS = ("umls", "kinship", "wn18rr")
PARTITIONS = ("relations", "louvain")
DIMENSIONS = (16, 8, 32)
RATES = (0.01, 0.003)
CLIENTS = 5
COMMON: dict[str, Any] = {
    "links.reciprocal": True,
    "num_rounds": 20,
    "local_epochs": 2,
    "seed": 0,
    "global_every": 0,
    "report": False,
}
SPACE = {"links.score": "squared", "links.bias": True}

RELATIONS = ("translation", "diagonal", "rotation")

METHODS: dict[str, dict[str, Any]] = {
    f"{relations}, {curvature:g}": {
        "method": "links",
        "links.relations": relations,
        "links.curvature": curvature,
        **SPACE,
    }
    for relations in RELATIONS
    for curvature in (0.0, -1.0)
} | {"ComplEx": {"method": "links-complex"}, "RotatE": {"method": "links-rotate"}}
"""By relations and curvature."""

KEYS = ("graph", "partition", "clients", "dimension", "method", "rate", "rounds")
FIGURES = (
    "validation",
    "mrr",
    "frequent_mrr",
    "global_mrr",
    "global_frequent_mrr",
    "global_hits_10",
)
HEADS = (*KEYS, *(f"{name}, %" for name in FIGURES))


def cells(graphs: list[str], partitions: list[str]) -> Iterator[tuple[str, ...]]:
    """The values of `KEYS` of each run, as text."""
    axes = (partitions, DIMENSIONS, graphs, RATES, METHODS)
    for partition, dimension, graph, rate, method in itertools.product(*axes):
        keys = (graph, partition, CLIENTS, dimension, method, rate, COMMON["num_rounds"])
        yield tuple(map(str, keys))


def figures_of(keys: tuple[str, ...], data: Path) -> list[str]:
    """The figures of a run, in percent."""
    graph, partition, _, dimension, method, rate, _ = keys
    settings: dict[str, Any] = {
        "data_dir": str(data),
        "partition": partition,
        "learning_rate": float(rate),
    }
    with tempfile.TemporaryDirectory() as folder:
        run = curvfed.simulate(
            **METHODS[method],
            **COMMON,
            **settings,
            dataset=graph,
            embedding_dim=int(dimension),
            num_supernodes=CLIENTS,
            results_dir=folder,
            quiet=True,
        )
        metrics = run.summary["metrics"]
    return [f"{100 * metrics[name]:.1f}" for name in FIGURES]


def best(rows: list[list[str]]) -> list[list[str]]:
    """The row of the best validation score among those that differ in their rate alone."""
    place = HEADS.index("validation, %")
    rate = KEYS.index("rate")
    chosen: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        cell = tuple(row[:rate])
        if cell not in chosen or float(row[place]) > float(chosen[cell][place]):
            chosen[cell] = row
    return list(chosen.values())


def page_lines(rows: list[list[str]]) -> list[str]:
    """The table of `docs/links.md`: global mean reciprocal ranks, at curvature 0 and −1."""
    scores: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in best(rows):
        cell = dict(zip(HEADS, row, strict=True))
        place = (cell["graph"], cell["partition"], cell["dimension"])
        of_place = scores.setdefault(place, {"most frequent": cell["global_frequent_mrr, %"]})
        of_place[cell["method"]] = cell["global_mrr, %"]
    lines = []
    for place in sorted(scores, key=lambda place: (*place[:2], int(place[2]))):
        score = scores[place]
        if len(score) <= len(METHODS):  # some of its runs are missing
            continue
        pairs = [f"{score[f'{name}, 0']}, {score[f'{name}, -1']}" for name in RELATIONS]
        lines.append([*place, *pairs, score["ComplEx"], score["RotatE"], score["most frequent"]])
    heads = ("graph", "clients by", "dimension", *RELATIONS, "ComplEx", "RotatE", "most frequent")
    return table_lines(heads, lines)


def main() -> None:
    """Make the missing runs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS[:2]))
    parser.add_argument("--only", nargs="+", choices=PARTITIONS, default=list(PARTITIONS))
    options = parser.parse_args()
    rows = read_csv(PAGE) if PAGE.exists() else []
    for keys in cells(options.graphs, options.only):
        if any(tuple(row[: len(keys)]) == keys for row in rows):
            continue
        rows.append([*keys, *figures_of(keys, options.data)])
        write_csv(PAGE, HEADS, rows)
        print(*rows[-1], sep=", ", flush=True)
    print("\n".join(page_lines(rows)))


if __name__ == "__main__":
    main()

"""The study of knowledge graphs, and PyKEEN's models beside ours: cells, choice of rates, scorer."""

from pathlib import Path

import pytest
import torch

from benchmarks.tables import read_csv
from curvfed.strategies.config.parse import parse
from studies import knowledge_graphs
from studies.peers import pykeen


def test_every_cell_is_a_configuration():
    cells = list(knowledge_graphs.cells(["umls"], ["relations"]))
    assert len(cells) == len(set(cells)) == 3 * 8 * 2
    for method in knowledge_graphs.METHODS.values():
        config = parse({"dataset": "umls", "partition": "relations", **method})
        assert config.method == method["method"]
    for _, keys in pykeen.PAIRS.values():
        parse({"dataset": "umls", **keys})


def test_the_rate_is_that_of_the_best_validation():
    keys = ["umls", "relations", "5", "16", "ComplEx"]
    rows = [[*keys, "0.003", "20", "50.0", "9"], [*keys, "0.01", "20", "60.0", "3"]]
    rows.append([*keys[:-1], "RotatE", "0.01", "20", "10.0", "1"])
    assert knowledge_graphs.best(rows) == rows[1:]


@pytest.mark.parametrize("study", [knowledge_graphs.PAGE, pykeen.TABLE])
def test_measured_rows_are_cells(study: Path):
    """A row that no command makes would stay forever."""
    rows = read_csv(study)
    if study == knowledge_graphs.PAGE:
        cells = set(
            knowledge_graphs.cells(list(knowledge_graphs.GRAPHS), list(knowledge_graphs.PARTITIONS))
        )
        assert {tuple(row[: len(knowledge_graphs.KEYS)]) for row in rows} <= cells
    else:
        assert {row[1] for row in rows} <= set(pykeen.PAIRS)


def test_heads_are_asked_of_pykeen_by_their_relation():
    class Model:
        def predict_t(self, batch):
            return torch.tensor([[0.0, 1.0, 2.0]]) + batch.sum()

        def predict_h(self, batch):
            return torch.tensor([[0.0, 10.0, 20.0]]) + 100 * batch[0, 0] + batch[0, 1]

    scorer = pykeen.TheirModel(Model(), num_relations=2)
    heads = torch.tensor([1, 2])
    tails = torch.tensor([0, 2])
    blocks = list(scorer.blocks(heads, torch.tensor([1, 3]), tails))
    assert torch.cat(blocks).tolist() == [[2.0, 4.0], [102.0, 122.0]]

"""Cora as a user has it: one `Data`, the public masks, half of the classes unknown."""

import csv
import json
import os
from pathlib import Path

import pytest
import torch

from curvfed.deployments.commands.command import main

CLIENTS = 4


@pytest.mark.long
@pytest.mark.parametrize("method", ["fedavg", "flatland"])
def test_half_known_cora_trains_and_predicts(tmp_path, monkeypatch, capsys, method):
    """No client collapses to one class, and unknown nodes are predicted well."""
    raw = Path(os.environ.get("CURVFED_DATA", "data")) / "planetoid" / "Cora" / "raw"
    if not raw.is_dir():
        pytest.skip(f"no {raw}; CURVFED_DATA names the folder of public data")
    from torch_geometric.data import Data
    from torch_geometric.io import read_planetoid_data

    monkeypatch.setenv("HOME", str(tmp_path))
    whole = read_planetoid_data(str(raw), "cora")
    y = whole.y.clone()
    unknown = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[: len(y) // 2]
    y[unknown] = -1
    masks = {
        "train_mask": whole.train_mask,
        "val_mask": whole.val_mask,
        "test_mask": whole.test_mask,
    }
    torch.save(Data(x=whole.x, edge_index=whole.edge_index, y=y, **masks), tmp_path / "cora.pt")
    data, folder = str(tmp_path / "cora.pt"), tmp_path / "run"
    pairs = [
        f"method={method}",
        f"dataset={data}",
        f"num-supernodes={CLIENTS}",
        f"results-dir={tmp_path}",
    ]
    assert main(["simulate", *pairs, "run-name=run"]) == 0
    summary = json.loads((folder / "summary.json").read_text())
    accuracies = (
        f"{method}: {summary['global_accuracy']} global, {summary['personal_accuracy_mean']} mean"
        " of clients"
    )
    notes, right, total = [], 0, 0
    for client in range(CLIENTS):
        out = tmp_path / f"{client}.csv"
        assert main(["predict", str(folder), data, "--client", str(client), "--out", str(out)]) == 0
        rows = list(csv.DictReader(out.read_text().splitlines()))
        nodes = torch.tensor([int(row["node"]) for row in rows])
        result = torch.tensor([int(row["class"]) for row in rows])
        counts = result.bincount(minlength=7)
        asked = torch.isin(nodes, unknown)
        hits = result[asked] == whole.y[nodes[asked]]
        notes.append(
            f"client {client}: classes {counts.tolist()}, {float(hits.float().mean()):.3f} of"
            " unknown right"
        )
        assert int(counts.max()) < 0.95 * len(result)
        right, total = right + int(hits.sum()), total + len(hits)
    with capsys.disabled():
        print(
            "", accuracies, *notes, f"{right / total:.4f} of {total} unknown nodes right", sep="\n"
        )
    assert total == len(unknown)
    assert right / total > 0.55

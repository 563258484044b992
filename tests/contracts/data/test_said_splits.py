"""What is said about a split that is drawn: the file has none."""

import torch
from graph_fixtures import user_fields
from torch_geometric.data import Data

from curvfed.deployments.commands.command import main


def test_of_a_file_without_masks_the_reason_is_said(tmp_path, capsys):
    fields = user_fields(120)
    for name in [name for name in fields if name.endswith("_mask")]:
        del fields[name]
    torch.save(Data(**fields), tmp_path / "mine.pt")
    words = ["check", "method=fedavg", f"dataset={tmp_path / 'mine.pt'}", "num-supernodes=2"]
    assert main(words) == 0
    assert "draws the split, as the file has none" in capsys.readouterr().out

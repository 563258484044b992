"""A split that a graph's file has, however it spells it: it is used, and told."""

import numpy as np
import pytest
import torch
from errors import refuses
from graph_fixtures import load_all, user_fields

from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset

TRAIN, VAL, TEST = torch.arange(60) % 3 == 0, torch.arange(60) % 3 == 1, torch.arange(60) % 3 == 2
INDICES = {"train": TRAIN.nonzero()[:, 0], "valid": VAL.nonzero()[:, 0]}
INDICES["test"] = TEST.nonzero()[:, 0]


def masks(train=TRAIN, val=VAL, test=TEST):
    return {"train_mask": train, "val_mask": val, "test_mask": test}


def own(tmp_path, **fields):
    torch.save(user_fields() | fields, tmp_path / "own.pt")
    return GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")


SPELLINGS = {
    "masks": masks(),
    "masks of floats": masks(TRAIN.float(), VAL.long(), TEST.unsqueeze(1)),
    "masks that are lists": masks(TRAIN.tolist(), VAL.tolist(), TEST.tolist()),
    "masks with node numbers": {f"{name}_mask": numbers for name, numbers in INDICES.items()},
    "as in OGB": {f"{name}_idx": numbers for name, numbers in INDICES.items()},
    "arrays": {
        f"{name}_index": numbers.numpy().astype(np.int32) for name, numbers in INDICES.items()
    },
    "as in pygcn": {f"idx_{name}": numbers.tolist() for name, numbers in INDICES.items()},
    "a dict": {"split_idx": INDICES},
    "a dict of masks": {"split": masks()},
    "masks beside another": masks() | {"train_idx": torch.tensor([1])},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling(tmp_path, spelling):
    graph = own(tmp_path, **SPELLINGS[spelling])
    assert torch.equal(
        torch.stack([graph.train, graph.val, graph.test]), torch.stack([TRAIN, VAL, TEST])
    )
    assert "the split of " in graph.history
    assert ("not used: train_idx" in graph.history) == (spelling == "masks beside another")
    for client in load_all(GraphSpec(str(tmp_path / "own.pt"), tmp_path), tmp_path / "cache", 3):
        assert torch.equal(client.train, TRAIN[client.numbers])


ABSENT = {
    # parts of the file: the sizes of train, validation and test
    ("train",): (20, 20, 20),
    ("test",): (13, 27, 20),
    ("train", "val"): (20, 20, 20),
    ("val", "test"): (20, 20, 20),
    ("train", "test"): (16, 4, 20),
}


@pytest.mark.parametrize("parts", ABSENT)
def test_parts_that_are_absent_are_drawn_and_reported(tmp_path, parts):
    masks = {"train": TRAIN, "val": VAL, "test": TEST}
    graph = own(tmp_path, **{f"{part}_mask": masks[part] for part in parts})
    drawn = {"train": graph.train, "val": graph.val, "test": graph.test}
    assert tuple(int(mask.sum()) for mask in drawn.values()) == ABSENT[parts]
    assert int(torch.stack([*drawn.values()]).sum(dim=0).max()) == 1
    if parts == ("train", "test"):
        drawn["train"] |= graph.val  # which is drawn from there
    for part in parts:
        assert torch.equal(drawn[part], masks[part])
    for part in masks.keys() - parts:
        assert f"no {part}_mask, so {int(drawn[part].sum())} of " in graph.history


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"train_idx": torch.tensor([0, 60])}, ("node-range", "train_idx", "2", "1", "0..59")),
        ({"train_idx": torch.tensor([3, 3])}, ("node-range", "train_idx", "1")),
        ({"train_idx": torch.tensor([0.5])}, ("split", "train_idx")),
        (
            {"train_idx": TRAIN.nonzero()[:, 0], "test_idx": torch.tensor([0])},
            ("split-overlap", "1"),
        ),
        ({"split": {"train": "all"}}, ("split",)),
    ],
)
def test_an_unfit_split_is_refused(tmp_path, fields, facts):
    with refuses(*facts):
        own(tmp_path, **fields)

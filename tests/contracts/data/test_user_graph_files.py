"""A user's graph that is absent, unreadable or unfit: one DataError that names the file and what is allowed."""

import io
import pickle
import re
import zipfile
from pathlib import Path

import pytest
import torch
from graph_fixtures import user_fields, write_user_graph

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.clients import load_client, load_own
from curvfed.tasks.graphs.data.graph_spec import GraphSpec

NODES = 60
NOBODY = torch.zeros(NODES, dtype=torch.bool)
HALF = torch.arange(NODES) < NODES // 2


def changed(name, place, value):
    tensor = user_fields()[name].clone()
    tensor[place] = value
    return {name: tensor}


UNFIT = {
    "x absent": ({"x": None}, r"x must be a tensor of numbers \(nodes, features\), .* absent"),
    "x flat": ({"x": torch.ones(NODES)}, r"x must .* float32 \(60,\)"),
    "x without features": ({"x": torch.ones(NODES, 0)}, r"x must .* \(60, 0\)"),
    "x complex": ({"x": torch.ones(NODES, 2, dtype=torch.complex64)}, "x must .* complex64"),
    "x a list": ({"x": [1.0, 2.0]}, "x must .* of type list"),
    "x NaN": (changed("x", (3, 1), float("nan")), "x has NaN or infinite values in 1 of 60 rows"),
    "x infinite": (changed("x", 5, float("inf")), "x has NaN or infinite values in 1 of 60 rows"),
    "x too large for float32": ({"x": torch.full((NODES, 2), 1e300, dtype=torch.float64)}, "in 60 of 60 rows"),
    "edges absent": ({"edge_index": None}, r"edge_index must be an integer tensor \(2, edges\); it is absent"),
    "edges transposed": ({"edge_index": torch.zeros(5, 2, dtype=torch.int64)}, r"edge_index must .* \(5, 2\)"),
    "edges fractional": ({"edge_index": torch.zeros(2, 5)}, "edge_index must .* float32"),
    "edge too high": (changed("edge_index", (0, 0), NODES), r"1 edges of edge_index leave the graph; .* 0\.\.59"),
    "edge negative": (changed("edge_index", (1, 2), -1), r"1 edges of edge_index leave the graph"),
    "labels absent": ({"y": None}, r"y must be an integer tensor \(60,\)"),
    "labels too few": ({"y": torch.zeros(NODES - 1, dtype=torch.int64)}, r"y must .* \(59,\)"),
    "labels fractional": ({"y": torch.full((NODES,), 0.5)}, "y must .* float32"),
    "labels negative": (changed("y", 0, -2), r"y has labels outside 0\.\.9999"),
    "labels huge": (changed("y", 0, 10**12), r"y has labels outside 0\.\.9999"),
    "names too few": ({"class_names": ["left"]}, r"class_names .* one for each label 0\.\.1"),
    "names twice": ({"class_names": ["left", "left"]}, "class_names must be different"),
    "names not text": ({"class_names": [0, 1]}, "class_names must be a list of strings"),
    "mask alone": ({"train_mask": HALF}, "has train_mask alone; give train_mask, val_mask, test_mask, or none"),
    "masks overlap": (
        {"train_mask": HALF, "val_mask": NOBODY, "test_mask": HALF},
        "30 nodes are in more than one of train_mask, val_mask, test_mask; they must be disjoint",
    ),
    "mask of numbers": (
        {"train_mask": HALF.long(), "val_mask": NOBODY, "test_mask": ~HALF},
        r"train_mask must be a bool tensor \(60,\) or \(60, splits\); it is int64",
    ),
    "mask too short": (
        {"train_mask": HALF, "val_mask": NOBODY[:9], "test_mask": ~HALF},
        r"val_mask must be a bool tensor .* bool \(9,\)",
    ),
    "masks of other splits": (
        {"train_mask": HALF, "val_mask": NOBODY, "test_mask": torch.stack([~HALF, ~HALF], dim=1)},
        r"must hold equally many splits; they hold \[1, 1, 2\]",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_unfit_user_graph(tmp_path, case):
    changes, text = UNFIT[case]
    path = tmp_path / "own.pt"
    torch.save({name: value for name, value in (user_fields() | changes).items() if value is not None}, path)
    for load in (
        lambda: load_own(path, GraphSpec("", tmp_path)),
        lambda: load_client(GraphSpec(str(path), tmp_path), 0, 2, tmp_path / "cache"),
    ):
        with pytest.raises(DataError, match=re.escape(str(path)) + ".*" + text):
            load()


def test_unfit_data_object_is_refused_like_a_dict(tmp_path):
    write_user_graph(tmp_path / "own.pt", **changed("x", (3, 1), float("nan")))
    with pytest.raises(DataError, match="x has NaN or infinite values in 1 of 60 rows"):
        load_own(tmp_path / "own.pt", GraphSpec("", tmp_path))


def test_absent_user_graph(tmp_path):
    with pytest.raises(DataError, match=re.escape(f"no file {tmp_path / 'own.pt'}")):
        load_own(tmp_path / "own.pt", GraphSpec("", tmp_path))
    with pytest.raises(DataError, match=re.escape(f"nor {tmp_path / 'own.pt'}")):
        load_client(GraphSpec("own.pt", tmp_path), 0, 1, tmp_path / "cache")


def zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


class Trap:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


CONTENTS = {
    "empty": b"",
    "text": b"no graph",
    "text of which the unpickler makes a number": b"G1\n",
    "text of which it makes nothing": b"a\n",
    "junk": b"junk\n",
    "a zip of something else": zipped({"notes.txt": b"nothing of the kind"}),
    "a pickle of something else": pickle.dumps(Path("elsewhere")),
    "a pickle of numbers": pickle.dumps(range(3)),
}


@pytest.mark.parametrize("content", [*CONTENTS, "cut", "trap", "tensor", "number"])
def test_unreadable_user_graph(tmp_path, content):
    path, sprung = tmp_path / "own.pt", tmp_path / "sprung"
    write_user_graph(path)
    if content in ("trap", "tensor", "number"):
        torch.save({"trap": {"x": Trap(sprung)}, "tensor": torch.ones(3), "number": 3}[content], path)
    else:
        path.write_bytes(CONTENTS.get(content, path.read_bytes()[:-200]))
    with pytest.raises(DataError, match=re.escape(str(path)) + r".*torch_geometric\.data\.Data, or a dict, of x"):
        load_own(path, GraphSpec("", tmp_path))
    assert not sprung.exists()


def test_user_graph_of_an_older_torch_cut_anywhere(tmp_path):
    """Its pickle then ends in the middle of a number, a name, a stack."""
    path = tmp_path / "own.pt"
    torch.save(user_fields(), path, _use_new_zipfile_serialization=False)
    stored = path.read_bytes()
    for kept in range(0, 400, 7):
        path.write_bytes(stored[:kept])
        with pytest.raises(DataError, match=re.escape(f"{path} cannot be read")):
            load_own(path, GraphSpec("", tmp_path))

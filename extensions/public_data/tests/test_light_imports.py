"""Data of every kind are read without the libraries that only their preparation needs."""

import json
import subprocess
import sys

import pytest
from graph_fixtures import write_tu, write_user_graph
from image_fixtures import write_classes, write_idx

from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset

PROGRAM = """
import json, os, sys
from pathlib import Path

os.chdir(sys.argv[1])
root, told = Path.cwd(), {}


def report(kind, libraries, *digests):
    told[kind] = [list(digests), [name for name in libraries.split() if name in sys.modules]]


from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
PointDataset(PointSpec("olsson", Path("absent"))).own(Path("points.csv"))
PointDataset(PointSpec("uniform", Path("absent"), num_points=100)).client(0, 2)
report("points", "torch pandas anndata sklearn scipy")

from curvfed.tasks.registry import graph_sets
graph_sets("CHEM,BIO")
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset
import curvfed.tasks.graphs.graph_models
kept = [GraphDataset(GraphSpec(name, root), root / "cache").client(2, 4) for name in ("cora", "mutag,dd")]
report("kept graphs", "torch_geometric pymetis scipy networkx sklearn matplotlib", *(one.digest for one in kept))

from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.registry import tasks_of
images = ImageDataset(ImageSpec("mnist", root), root / "cache")
kept = [images.client(2, 4), images.test(), images.own(root / "own")]
assert tasks_of("./own") == ("images",)
report("kept images", "torchvision PIL torch_geometric scipy sklearn matplotlib", *(one.digest for one in kept))

GraphDataset(GraphSpec("", Path())).own(Path("own.pt"))
GraphDataset(GraphSpec("mutag", root), Path("new")).client(0, 2)
report("own graphs", "torch_geometric pymetis networkx sklearn")
print(json.dumps(told))
"""


@pytest.mark.long
def test_data_are_read_without_heavy_imports(cora_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.csv").write_text("x,y,label\n0.1,0.2,a\n0.1,-0.2,b\n")
    for path in cora_dir.iterdir():
        (tmp_path / path.name).symlink_to(path)
    write_tu(tmp_path, "MUTAG")
    write_tu(tmp_path, "DD")
    write_user_graph(tmp_path / "own.pt")
    write_idx(tmp_path)
    write_classes(tmp_path / "own", {"a": 5, "b": 5})
    cache = tmp_path / "cache"
    images = ImageDataset(ImageSpec("mnist", tmp_path), cache)
    graphs = [
        GraphDataset(GraphSpec(name, tmp_path), cache).client(2, 4).digest
        for name in ("cora", "mutag,dd")
    ]
    kept = [images.client(2, 4), images.test(), images.own(tmp_path / "own")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "points": [[], []],
        "kept graphs": [graphs, []],
        "kept images": [[part.digest for part in kept], []],
        "own graphs": [[], []],
    }

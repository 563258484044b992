"""Data of every kind are read without the libraries that only their preparation needs."""

import json
import subprocess
import sys

from graph_fixtures import write_tu, write_user_graph
from image_fixtures import write_classes, write_idx

from curvfed.tasks.graphs.data.clients import load_client as load_graph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.images.data import ImageSpec, load_client, load_own, load_test

PROGRAM = """
import json, os, sys
from pathlib import Path

os.chdir(sys.argv[1])
root, told = Path.cwd(), {}


def report(kind, libraries, *digests):
    told[kind] = [list(digests), [name for name in libraries.split() if name in sys.modules]]


from curvfed.tasks.points import data as points
points.load_own(Path("points.csv"), points.PointSpec("olsson", Path("absent")))
points.load_client(points.PointSpec("uniform", Path("absent"), num_points=100), 0, 2)
report("points", "torch pandas anndata sklearn scipy")

from curvfed.tasks.graphs.data.tu import graph_dataset_names
graph_dataset_names("CHEM,BIO")
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.clients import load_client, load_own
kept = [load_client(GraphSpec(name, root), 2, 4, root / "cache") for name in ("cora", "mutag,dd")]
report("kept graphs", "torch_geometric pymetis scipy networkx sklearn matplotlib", *(one.digest for one in kept))

from curvfed.tasks.images import data as images
from curvfed.tasks.registry import tasks_of
spec, cache = images.ImageSpec("mnist", root), root / "cache"
kept = [images.load_client(spec, 2, 4, cache), images.load_test(spec, cache), images.load_own(root / "own", spec, cache)]
assert tasks_of("./own") == ("images",)
report("kept images", "torchvision PIL torch_geometric scipy sklearn matplotlib", *(one.digest for one in kept))

load_own(Path("own.pt"), GraphSpec("", Path()))
load_client(GraphSpec("mutag", root), 0, 2, Path("new"))
report("own graphs", "torch_geometric pymetis networkx sklearn")
print(json.dumps(told))
"""


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
    cache, images = tmp_path / "cache", ImageSpec("mnist", tmp_path)
    graphs = [
        load_graph(GraphSpec(name, tmp_path), 2, 4, cache).digest for name in ("cora", "mutag,dd")
    ]
    kept = [
        load_client(images, 2, 4, cache),
        load_test(images, cache),
        load_own(tmp_path / "own", images, cache),
    ]
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

"""Every format of another tool, from its files through a check and a run to predictions."""

from pathlib import Path

import pytest
from errors import refuses
from format_fixtures import (
    leaf_users,
    write_cifar100,
    write_citations,
    write_leaf,
    write_leaf_file,
    write_medmnist,
    write_molecules,
    write_saved_images,
    write_saved_points,
    write_tiny_folder,
)
from saved_datasets import installed  # noqa: F401
from tiers import only

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.tasks.formats import decide
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.registry import has_users, tasks_of

TESTED = 21
EXAMPLES = 96

WRITERS = {
    "MedMNIST's .npz": write_medmnist,
    "LEAF's JSON": write_leaf,
    "CIFAR's pickled batches": write_cifar100,
    "TinyImageNet's folder": write_tiny_folder,
    "a folder saved by Hugging Face's datasets": write_saved_images,
}


@pytest.mark.parametrize("title", only(WRITERS, "LEAF's JSON".__eq__))
def test_check_run_and_prediction(title, own_home, tmp_path, capsys):
    path = WRITERS[title](tmp_path)
    assert tasks_of(str(path)) == decide(path).tasks
    keys = {"num_rounds": 1, "local_epochs": 1, "num_supernodes": 2, "quiet": True}
    assert main(["check", "method=fedavg", f"dataset={path}", "num-supernodes=2"]) == 0
    assert f"({title})" in capsys.readouterr().out
    run = curvfed.simulate("fedavg", dataset=path, min_client_size=1, **keys)
    assert run.summary["global_accuracy"] is not None
    assert len(run.predict(path)) == TESTED
    copy = path.rename(path.with_name(f"new{path.suffix}"))
    assert len(run.predict(copy)) == EXAMPLES
    # The same files as the own data of two nodes.
    result = curvfed.simulate("fedavg", data=[copy, copy], **keys | {"num_supernodes": 2})
    assert result.summary["personal_accuracy_mean"] is not None


def test_a_path_in_the_data_folder(own_home, tmp_path, capsys):
    write_leaf(tmp_path)
    write_leaf_file(tmp_path / "own.json", leaf_users({"a": 20, "b": 20}))
    for dataset in ("./femnist", "own.json"):
        keys = [f"dataset={dataset}", f"data-dir={tmp_path}", "num-supernodes=2"]
        assert main(["check", "method=fedavg", *keys]) == 0
        out = capsys.readouterr().out
        assert f"data: images in {tmp_path}" in out
        assert "(LEAF's JSON)" in out
        assert tasks_of(dataset, tmp_path) == ("images",)
        assert has_users(dataset, tmp_path)


def test_saved_points(own_home, tmp_path, capsys):
    path = write_saved_points(tmp_path)
    assert tasks_of(str(path)) == decide(path).tasks == ("points",)
    assert main(["check", "method=hull", f"dataset={path}", "num-supernodes=2"]) == 0
    place = f"points in {path} (a folder saved by Hugging Face's datasets)"
    assert place in capsys.readouterr().out.replace("\n", " ")
    run = curvfed.simulate("hull", dataset=path, num_supernodes=2, quiet=True)
    assert run.summary["global_accuracy"] > 0.8
    assert len(run.predict(path)) == EXAMPLES
    result = curvfed.simulate("hull", data=[path, path], quiet=True)
    assert result.summary["status"] == "completed"


@pytest.mark.parametrize(
    ("write", "kind", "needed"),
    [
        (write_citations, ImageDataset(ImageSpec("digits", Path())), "images"),
        (write_leaf, GraphDataset(GraphSpec("cora", Path())), "nodes or graphs"),
    ],
)
def test_data_of_another_task_are_refused(write, kind, needed, tmp_path):
    path = write(tmp_path)
    with refuses("other-data", str(path), decide(path).form.title, f"needs {needed}"):
        kind.own(path)
    if needed == "images":
        with refuses("other-data", str(path)):
            kind.test(path)


@pytest.mark.parametrize(
    "write", only([write_citations, write_molecules], lambda write: write is write_citations)
)
def test_ogb(write, own_home, tmp_path, capsys):
    path = write(tmp_path)
    assert tasks_of(str(path)) == decide(path).tasks
    assert main(["check", "method=fedavg", f"dataset={path}", "num-supernodes=2"]) == 0
    output = capsys.readouterr().out
    assert "(a folder of the Open Graph Benchmark)" in output
    assert "the split of train_mask, val_mask, test_mask" in output
    keys = {"num_rounds": 1, "quiet": True}
    run = curvfed.simulate("fedavg", dataset=path, num_supernodes=2, **keys)
    assert run.summary["personal_accuracy_mean"] is not None
    assert len(run.predict(path, client=0))
    copy = path.rename(path.with_name("new"))
    num_examples = 640 if write is write_citations else EXAMPLES
    assert len(run.predict(copy)) == num_examples
    result = curvfed.simulate("fedavg", data=[copy, copy], **keys)
    assert result.summary["personal_accuracy_mean"] is not None

"""Exported programs against the models that they come from, with torch or an ONNX runtime alone."""

import json
import logging
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from app_runs import run
from onnx_packages import needs_onnx

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.extensions.exports.commands import export as exports
from curvfed.extensions.exports.commands.classifier_program import ClassifierProgram
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.hull.classifier import Classifier

ROOT = Path(__file__).parents[3]

FRESH = """
import json, sys
sys.modules["curvfed"] = None  # an import of it fails
import torch
extra = {"curvfed.json": ""}
program = torch.export.load(sys.argv[1], extra_files=extra).module()
generator = torch.Generator().manual_seed(0)
features, sizes = json.loads(extra["curvfed.json"])["classes"], []
for nodes, edges in ((1, 0), (7, 9), (40, 100)):
    x = torch.rand(nodes, 300, generator=generator)
    edge_index = torch.randint(0, nodes, (2, edges), generator=generator)
    classes, probabilities = program(x, edge_index)
    sizes.append([len(classes), *probabilities.shape])
print(json.dumps(sizes))
"""


@pytest.mark.long
def test_a_graph_model_needs_torch_alone(own_home, tmp_path, capsys):
    trained = run(tmp_path, method="flatland", num_rounds=2, embedding_dim=8)
    out = tmp_path / "model.pt2"
    assert main(["export", str(trained.path), "--out", str(out), "--client", "1"]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    command = [sys.executable, "-I", "-c", FRESH, str(out)]
    assert not paths_of_this_machine(out)
    fresh = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(fresh.stdout) == [[1, 1, 6], [7, 7, 6], [40, 40, 6]]
    # Edges in one direction, twice and to the node itself are those of the cleaned graph.
    x = torch.rand(20, 300)
    edge_index = torch.tensor([[0, 1, 1, 3, 5, 5], [1, 0, 2, 3, 6, 6]])
    classes, probabilities = torch.export.load(out).module()(x, edge_index)
    table = curvfed.load(trained.path).predict({"x": x, "edge_index": edge_index}, client=1)
    largest = probabilities.max(dim=1).values.numpy()
    assert np.abs(table["probability"].to_numpy() - largest).max() <= exports.LIMIT
    assert table["class"].tolist() == [str(number) for number in classes.tolist()]


def test_the_samples_of_an_export_are_in_no_log(own_home, tmp_path, caplog):
    keys = {"num_supernodes": 2, "num_rounds": 1, "embedding_dim": 8, "report": False}
    trained = curvfed.simulate("flatland", **keys)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="curvfed"):
        trained.export(tmp_path / "model.pt2", client=1)
    assert not caplog.messages


@pytest.mark.long
@pytest.mark.parametrize(
    "suffix", [".pt2", pytest.param(".onnx", marks=[needs_onnx, pytest.mark.long])]
)
def test_images_and_points_of_any_number(suffix, own_home, tmp_path):
    images = curvfed.simulate(
        "hyperfed",
        dataset="digits",
        num_supernodes=2,
        num_rounds=1,
        quiet=True,
        report=False,
        images={"train_subset": 60},
        results_dir=str(tmp_path),
    )
    points = curvfed.simulate(
        "hull",
        dataset="uniform",
        num_supernodes=3,
        quiet=True,
        report=False,
        results_dir=tmp_path,
        hull={"classifier": "svm"},
    )
    shape = tuple(map(int, images.data.shape.split("x")))
    rng = np.random.default_rng(0)
    draws = {
        images: lambda count: rng.integers(0, 256, (count, *shape), dtype=np.uint8),
        points: lambda count: rng.uniform(-0.7, 0.7, (count, 2)),
    }
    for trained, draw in draws.items():
        out = trained.export(tmp_path / f"{trained.data.task}{suffix}")
        for count in (1, 9):
            inputs = draw(count)
            _, probabilities, *unknown = answers(out, inputs)
            assert not paths_of_this_machine(out)
            table = trained.predict(inputs)
            error = np.abs(probabilities.max(axis=1) - table["probability"].to_numpy())
            assert error.max() <= exports.LIMIT
            expected = [table[name].tolist() for name in ("unknown",) if name in table]
            assert [flags.tolist() for flags in unknown] == expected
    outside = np.array([[1.0, 0.1], [-3.0, 0.0], [np.nan, 0.0], [np.inf, 0.0]])
    assert answers(out, outside)[2].all()


def paths_of_this_machine(path: Path) -> list[str]:
    """The folders of this machine that an exported file names."""
    contents = [path.read_bytes()]
    if path.suffix == ".pt2":
        with zipfile.ZipFile(path) as archive:
            contents = [archive.read(name) for name in archive.namelist()]
    folders = {str(Path(curvfed.__file__).parent), str(ROOT), sys.prefix, str(Path.home())}
    return [f for f in folders if any(f.encode() in content for content in contents)]


def answers(path, inputs: np.ndarray) -> list[np.ndarray]:
    if path.suffix == ".pt2":
        return [
            output.numpy() for output in torch.export.load(path).module()(torch.from_numpy(inputs))
        ]
    import onnxruntime

    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: inputs})


@pytest.mark.parametrize("kind", ["poincare", "logistic", "plane", "lorentz", "quadratic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_torch_form_of_a_classifier_answers_as_it_does(kind, classes):
    points = np.random.default_rng(0).uniform(-0.6, 0.6, (80, 2))
    groups = ((np.arctan2(points[:, 1], points[:, 0]) + np.pi) * classes / 6.3).astype(int)
    classifier = Classifier.train(points, groups, -1.0, 1.0, False, 0, kind)
    new = np.random.default_rng(1).uniform(-0.7, 0.7, (200, 2))
    winners, probabilities, unknown = ClassifierProgram(classifier)(torch.from_numpy(new))
    assert (classifier.groups[winners.numpy()] == classifier.predict(new)).all()
    np.testing.assert_allclose(probabilities.numpy(), classifier.probabilities(new), atol=1e-12)
    assert (unknown.numpy() == classifier.unknown(new)).all()
    outside = torch.tensor([[0.8, 0.7], [float("nan"), 0.0]], dtype=torch.float64)
    assert ClassifierProgram(classifier)(outside)[2].all()


def test_what_cannot_be_exported_is_refused(own_home, tmp_path, capsys, monkeypatch):
    trained = run(tmp_path, method="fedavg", num_rounds=1, embedding_dim=8)

    def refused(out: str, *options: str) -> tuple[int, str]:
        status = main(["export", str(trained.path), "--out", str(tmp_path / out), *options])
        assert not (tmp_path / out).exists()
        return status, capsys.readouterr().err

    for out in ("model.onnx", "model.pth"):
        status, text = refused(out)
        assert status == 2
        assert "files that end in .pt2\n" in text
    status, text = refused("model.pt2", "--uncalibrated", "--client", "1")
    assert status == 2
    assert "no calibrated classifier" in " ".join(text.split())
    monkeypatch.setattr(exports, "_difference", lambda outputs, expected: 2e-5)
    status, text = refused("model.pt2")
    assert status == 1
    assert "differs from the model by 2e-05" in text


def test_the_model_of_a_one_shot_run_is_its_classifier(own_home, tmp_path):
    trained = run(tmp_path, method="hull", dataset="uniform", num_rounds=0)
    stored = curvfed.load(trained.path)
    points = np.random.default_rng(0).uniform(-0.6, 0.6, (50, 2))
    winners, probabilities, _ = stored.model()(torch.from_numpy(points))
    table = stored.predict(points)
    names = [stored.data.class_names[number] for number in winners.tolist()]
    assert table["class"].tolist() == names
    largest = probabilities.max(dim=1).values.numpy()
    np.testing.assert_allclose(table["probability"], largest, atol=1e-12)


class Net(torch.nn.Module):
    """A model of the user, of one layer."""

    def __init__(self, shape, classes):
        super().__init__()
        self.body = torch.nn.Linear(int(np.prod(shape)), classes)

    def forward(self, images):
        return self.body(images.flatten(1))


def test_a_model_whose_code_was_changed_is_not_exported(own_home, tmp_path, monkeypatch):
    keys = {"dataset": "digits", "num_supernodes": 2, "num_rounds": 1, "quiet": True}
    trained = curvfed.simulate("fedavg", model=Net, results_dir=tmp_path, report=False, **keys)
    monkeypatch.setattr(Net, "forward", lambda self, images: -self.body(images.flatten(1)))
    with pytest.raises(ConfigError, match=r"the code of model = .*Net.* is another"):
        trained.export(tmp_path / "model.pt2")
    assert not (tmp_path / "model.pt2").exists()

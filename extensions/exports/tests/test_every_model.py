"""Every network and head as a program of torch and of ONNX: its answers are the model's."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from onnx_packages import needs_onnx

import curvfed
from curvfed.extensions.exports.commands.export import LIMIT, _onnx_program, _torch_program, export
from curvfed.extensions.exports.commands.programs import ImageProgram
from curvfed.strategies.config.build_method import build_model
from curvfed.strategies.methods import METHODS
from curvfed.tasks.images.models import ImageModelSpec
from curvfed.tasks.images.nets import NETS

pytestmark = pytest.mark.long

RUNS = [
    *((method, {"dataset": "digits"}) for method in ("spherefed", "hyperfed", "ditto", "fedrod")),
    *(("flatland", {"model": kind}) for kind in ("lorentz", "gcn")),
    *((method, {}) for method in ("fedavg", "fed-pub", "apple", "fedhgcn", "fedsage+")),
    ("fedavg", {"dataset": "uniform"}),
    *(("hull", {"dataset": "uniform", "hull": {"classifier": kind}}) for kind in ("depth", "svm")),
    *(
        ("discriminant", {"dataset": "uniform", "discriminant": {"kind": kind}})
        for kind in ("lda", "qda")
    ),
]

HERE = [(method, keys) for method, keys in RUNS if method in METHODS]
"""Runs of the methods that no deleted extension had."""

EXPORTS = [
    *((method, keys, ".pt2") for method, keys in HERE),
    *(
        pytest.param(method, keys, ".onnx", marks=needs_onnx)
        for method, keys in HERE
        if "dataset" in keys  # graphs are exported to torch alone
    ),
]


@pytest.mark.parametrize(("method", "keys", "suffix"), EXPORTS)
def test_an_export_answers_as_its_model(method, keys, suffix, own_home, tmp_path):
    small = {"images": {"train_subset": 60}} if keys.get("dataset") == "digits" else {}
    run = curvfed.simulate(
        method,
        num_supernodes=3,
        num_rounds=1,
        quiet=True,
        report=False,
        results_dir=tmp_path,
        **keys,
        **small,
    )
    client = 1 if method in ("flatland", "fed-pub", "ditto", "fedrod", "apple") else None
    metadata = export(run._trained, tmp_path / f"model{suffix}", client)
    assert metadata["error"] <= LIMIT


@pytest.mark.parametrize("write", [_torch_program, pytest.param(_onnx_program, marks=needs_onnx)])
@pytest.mark.parametrize("kind", sorted(NETS))
def test_every_network_of_images(kind, write):
    spec = ImageModelSpec(kind, (3, 32, 32), "group", embedding_dim=16, num_classes=10)
    net = build_model(spec, 0).eval()
    data = SimpleNamespace(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.2))
    program = ImageProgram(net, None, data).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)

    def images(count: int) -> torch.Tensor:
        return torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)

    _, answers = write(program, (images(4),), {"outputs": ["class", "probabilities"]})
    for count in (1, 5):
        pixels = images(count)
        mean, std = (torch.tensor(values)[:, None, None] for values in (data.mean, data.std))
        expected = net((pixels / 255 - mean) / std).softmax(dim=1)
        error = np.abs(answers((pixels,))[1] - expected.detach().numpy()).max()
        assert error <= LIMIT


def test_whole_graphs(own_home, tmp_path):
    generator = torch.Generator().manual_seed(0)

    def graphs(count: int) -> list[dict[str, object]]:
        sizes = [5 + number % 4 for number in range(count)]
        return [
            {
                "x": torch.rand(size, 4, generator=generator),
                "edge_index": torch.randint(0, size, (2, 2 * size), generator=generator),
                "y": number % 2,
            }
            for number, size in enumerate(sizes)
        ]

    for method in ("fedavg", "flatland"):
        run = curvfed.simulate(
            method,
            data=[graphs(16), graphs(14)],
            num_rounds=2,
            quiet=True,
            report=False,
            results_dir=tmp_path,
        )
        program = torch.export.load(run.export(tmp_path / f"{method}.pt2", client=0)).module()
        new = graphs(5)
        sizes = torch.tensor([len(graph["x"]) for graph in new])
        starts = sizes.cumsum(0) - sizes
        edges = [graph["edge_index"] + start for graph, start in zip(new, starts, strict=True)]
        _, probabilities = program(
            torch.cat([graph["x"] for graph in new]),
            torch.cat(edges, dim=1),
            torch.arange(5).repeat_interleave(sizes),
        )
        expected = run.predict(new, client=0)["probability"].to_numpy()
        assert np.abs(probabilities.max(dim=1).values.numpy() - expected).max() <= LIMIT

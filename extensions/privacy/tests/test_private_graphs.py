"""Clipped sums over the gradients of whole graphs, against a loop over single graphs."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from curvfed.extensions.privacy.private_steps import ExampleGradients, clipped_sum
from curvfed.tasks.graphs.inputs import DenseGraphs, GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.graphs.sparse import Constant
from curvfed.tasks.task import Batch

KINDS = ("gin", "gcn", "lorentz", "lorentz-gcn")
SIZES = (1, 4, 7, 3)
"""A single node; the last graph has no edges."""


def joined(graphs):
    edges, owner, start = [], [], 0
    for number, (features, pairs) in enumerate(graphs):
        both = torch.cat([pairs, pairs.flip(0)], dim=1) + start
        edges.append(both[:, (both[0] * 100 + both[1]).argsort()])
        owner.append(torch.full((len(features),), number))
        start += len(features)
    features = Constant.of(torch.cat([features for features, _ in graphs]))
    return GraphInputs(features, torch.cat(edges, dim=1), torch.cat(owner), len(graphs))


def random_graphs(dtype):
    generator = torch.Generator().manual_seed(3)
    for size in SIZES:
        features = 2 * torch.randn(size, 5, generator=generator, dtype=dtype)
        chosen = torch.rand(size, size, generator=generator) < 0.5 * (size != SIZES[-1])
        yield features, chosen.triu(1).nonzero().t()


def loss(model, batch):
    return F.cross_entropy(model(batch.inputs), batch.labels)


CASES = [
    *((kind, torch.float32, 1e-5) for kind in ("gin", "gcn", "lorentz")),
    *((kind, torch.float64, 1e-10) for kind in KINDS),
    ("lorentz-gcn", torch.float32, 0.01),  # the condition of a centroid at radius r is cosh(2r)
]


@pytest.mark.parametrize(("kind", "dtype", "limit"), CASES)
def test_clipped_sums_are_those_of_a_loop(kind, dtype, limit):
    model = ModelSpec("graphs", kind, 5, 3, 6, 0.0, curvature=None).build(0).to(dtype)
    graphs = list(random_graphs(dtype))
    labels = torch.tensor([0, 2, 1, 1])
    parameters = [value for value in model.parameters() if value.requires_grad]
    gradients = [
        torch.autograd.grad(loss(model, Batch(joined([graph]), label[None])), parameters)
        for graph, label in zip(graphs, labels, strict=True)
    ]
    norms = [float(nn.utils.get_total_norm(gradient)) for gradient in gradients]
    clip = sorted(norms)[1]  # two gradients are longer

    batch = Batch(DenseGraphs.of(joined(graphs), max(SIZES)), labels)
    sums = clipped_sum(ExampleGradients(model, loss), [batch], clip)
    for total, columns in zip(sums.values(), zip(*gradients, strict=True), strict=True):
        factors = [clip / max(norm, clip) for norm in norms]
        expected = sum(factor * column for factor, column in zip(factors, columns, strict=True))
        assert (total - expected).abs().max() <= limit * clip


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_differs_between_graphs(kind):
    model = ModelSpec("graphs", kind, 5, 3, 64, 0.5).build(0)
    _, graph, *_ = random_graphs(torch.float32)
    model.train()
    batch = Batch(DenseGraphs.of(joined([graph] * 3), 4), torch.zeros(3).long())
    rows = ExampleGradients(model, loss).rows(batch)
    squares = sum(row.square().sum(dim=1) for row in rows.values())
    assert len(set(squares.tolist())) == 3

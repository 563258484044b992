"""DP-SGD's steps against a loop over the examples, and the law of their noise and batches."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from curvfed.extensions.privacy import private_steps
from curvfed.extensions.privacy.private_steps import (
    ExampleGradients,
    Noise,
    PrivateSteps,
    clipped_sum,
)
from curvfed.tasks.images.client_task import objective
from curvfed.tasks.images.models import ImageModelSpec
from curvfed.tasks.task import Batch

HEADS = {
    "cross-entropy": "linear",
    "mse": "sphere",
    "geodesic": "prototypes",
    "triplet": "prototypes",
}
# all losses on a small network, all networks on one loss, both precisions on both
CASES = [
    *((loss, "cnn", dtype) for loss in HEADS for dtype in (torch.float32, torch.float64)),
    ("cross-entropy", "convnet", torch.float64),
    *(
        pytest.param("cross-entropy", network, torch.float64, marks=pytest.mark.long)
        for network in ("resnet18", "vgg13", "mobilenetv2", "senet18")
    ),
]


def _parts(loss, network, dtype):
    start = "default" if loss == "cross-entropy" else "orthonormal"
    model = ImageModelSpec(
        network, (1, 16, 16), "group", 6, 4, head=HEADS[loss], start=start
    ).build(0)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(3, 1, 16, 16, generator=generator, dtype=dtype)
    options = {"negatives": "all"} if loss == "triplet" else {}
    function = objective(loss, **options)
    batch = Batch(images, torch.tensor([1, 3, 0]))
    return model.to(dtype), batch, lambda model, batch: function(model, batch.inputs, batch.labels)


@pytest.mark.parametrize(("loss", "network", "dtype"), CASES)
def test_clipped_sums_are_those_of_a_loop(loss, network, dtype):
    model, batch, function = _parts(loss, network, dtype)
    examples = [Batch(image[None], label[None]) for image, label in zip(*batch[:2], strict=True)]
    gradients = [
        torch.autograd.grad(function(model, example), list(model.parameters()))
        for example in examples
    ]
    norms = [float(nn.utils.get_total_norm(gradient)) for gradient in gradients]
    clip = sorted(norms)[1]  # one gradient is longer
    sums = clipped_sum(ExampleGradients(model, function), [batch], clip)
    for total, columns in zip(sums.values(), zip(*gradients, strict=True), strict=True):
        expected = sum(
            column * min(1.0, clip / norm) for column, norm in zip(columns, norms, strict=True)
        )
        assert torch.allclose(total, expected.double(), rtol=1e-6, atol=1e-6 * clip)


def test_batches_change_nothing():
    model, batch, function = _parts("cross-entropy", "cnn", torch.float64)
    gradients = ExampleGradients(model, function)
    total = clipped_sum(gradients, [batch], 0.1)
    parts = zip(batch.inputs.split(1), batch.labels.split(1), strict=True)
    single = clipped_sum(gradients, [Batch(*example) for example in parts], 0.1)
    filled = Batch(batch.inputs[[0, 1, 2, 2, 2]], batch.labels, torch.arange(3))
    filled_up = clipped_sum(gradients, [filled], 0.1)
    for name, value in total.items():
        assert torch.allclose(value, single[name], rtol=1e-9)
        assert torch.allclose(value, filled_up[name], rtol=1e-9)


def test_a_block_of_columns_at_a_time_changes_nothing(monkeypatch):
    model, batch, function = _parts("cross-entropy", "cnn", torch.float64)
    gradients = ExampleGradients(model, function)
    total = clipped_sum(gradients, [batch], 0.1)
    monkeypatch.setattr(private_steps, "BLOCK", 7)
    columns = clipped_sum(gradients, [batch], 0.1)
    for name, value in total.items():
        assert torch.allclose(value, columns[name], rtol=1e-9, atol=1e-15)


def test_parameters_may_lie_in_memory_in_any_order():
    """As those of convolutions do on a GPU."""
    model, batch, function = _parts("cross-entropy", "cnn", torch.float64)
    rows = clipped_sum(ExampleGradients(model, function), [batch], 0.1)
    model.to(memory_format=torch.channels_last)
    columns = clipped_sum(ExampleGradients(model, function), [batch], 0.1)
    for name, value in rows.items():
        assert torch.allclose(value, columns[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("number", "rate", "size"),
    [(600, 1.0, 200), (100, 1.0, 100), (450, 128 / 450, 148), (10, 1e-9, 1), (0, 1.0, 1)],
)
def test_few_examples_are_computed_for_nothing(number, rate, size):
    gradients = ExampleGradients(nn.Linear(1, 1), lambda model, batch: model(batch.inputs).sum())
    assert gradients.batch_size(number, rate) == size


def test_the_gradients_in_memory_have_a_bound():
    gradients = ExampleGradients(
        nn.Linear(1000, 3000, bias=False), lambda model, batch: model(batch.inputs).sum()
    )
    assert gradients.batch_size(600, 1.0) == 2


def test_one_example_does_not_decide_whether_a_sum_is_finite():
    model, batch, function = _parts("cross-entropy", "cnn", torch.float32)
    batch.inputs[1] = float("inf")
    gradients = ExampleGradients(model, function)
    sums = clipped_sum(gradients, [batch], 1.0)
    fewer = clipped_sum(gradients, [Batch(batch.inputs[[0, 2]], batch.labels[[0, 2]])], 1.0)
    for name, value in sums.items():
        assert torch.allclose(value, fewer[name], rtol=1e-6, atol=1e-7)
    alone = Batch(batch.inputs[1:2], batch.labels[1:2])
    assert not any(value.any() for value in clipped_sum(gradients, [alone], 1.0).values())


class _Scalars:
    """Examples whose gradient for the single weight is their value."""

    def __init__(self, values):
        self.values = torch.tensor(values, dtype=torch.float64)
        self.num_examples = len(values)
        self.sizes = []

    def batches_of(self, positions, size):
        self.sizes.append(len(positions))
        for chunk in positions.split(size):
            if len(chunk):
                yield Batch(self.values[chunk], chunk)


class _Record:
    """Keeps the gradients instead of stepping."""

    def __init__(self, weight):
        self.weight = weight
        self.gradients = []

    def step(self):
        self.gradients.append(float(self.weight.grad))


def _gradients(values, steps, **settings):
    model = nn.Module()
    model.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    source = Noise()
    source.seed([1])
    task = _Scalars(values)
    record = _Record(model.weight)
    PrivateSteps(source=source, **settings).train(
        model,
        task,
        record,
        steps,
        (),
        0.0,
        lambda model, batch: (model.weight * batch.inputs).sum(),
    )
    return np.array(record.gradients), np.array(task.sizes)


def test_the_noise_is_normal_with_its_scale():
    gradients, _ = _gradients([0.0] * 4, 200, rate=0.5, clip=3.0, noise=2.0)
    assert stats.kstest(gradients / (2.0 * 3.0 / 2.0), "norm").pvalue > 0.01


def test_each_example_is_in_a_batch_with_its_probability():
    gradients, sizes = _gradients([1.0] * 20, 300, rate=0.2, clip=1.0, noise=0.0)
    assert np.allclose(gradients, sizes / 4)  # the divisor is the expected number
    counts = np.bincount(sizes, minlength=21)[1:8]
    expected = 300 * stats.binom.pmf(np.arange(1, 8), 20, 0.2)
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 0.01


def test_an_empty_batch_is_noise_alone():
    gradients, sizes = _gradients([1.0], 50, rate=1e-9, clip=1.0, noise=1.0)
    assert not sizes.any()
    assert np.isfinite(gradients).all()
    assert np.ptp(gradients) > 0


def test_batches_and_noise_do_not_follow_seeds():
    def draw():
        torch.manual_seed(3)
        return PrivateSteps(0.5, 1.0, 1.0).source.gaussian(4)

    assert not np.allclose(draw(), draw())


def test_dropout_does_not_follow_seeds():
    """The server knows the seed; an example would change the draws of those after it."""

    def gradient():
        model = nn.Sequential(nn.Dropout(), nn.Linear(40, 1, bias=False))
        record = _Record(nn.Parameter(torch.zeros(1)))
        record.step = lambda: record.gradients.append(model[1].weight.grad)
        torch.manual_seed(3)
        PrivateSteps(1.0, 1e3, 0.0).train(
            model,
            _Vectors(torch.ones(6, 40)),
            record,
            1,
            (),
            0.0,
            lambda model, batch: model(batch.inputs).sum(),
        )
        return record.gradients[0]

    assert not torch.equal(gradient(), gradient())


class _Vectors(_Scalars):
    """Examples whose inputs are rows."""

    def __init__(self, rows):
        super().__init__([0.0] * len(rows))
        self.values = rows

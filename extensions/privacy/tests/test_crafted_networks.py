"""Parameters and networks that a lying server makes so that one example counts for more than
`dp.clip` in a step, or shows whether it is there."""

from types import SimpleNamespace

import pytest
import torch
from graph_fixtures import tu_graphs, write_tu
from one_client import a_client
from tiers import only
from torch import nn

from curvfed.extensions.privacy.private_steps import ExampleGradients, PrivateSteps, clipped_sum
from curvfed.strategies.base.noise import Noise
from curvfed.tasks.task import Batch, filled_up

CLIP = 0.5
NUMBER = 4


def powers(values, generator, low, high):
    sizes = 10 ** (torch.rand(values.shape, generator=generator) * (high - low) + low)
    return sizes * torch.randn(values.shape, generator=generator).sign()


CRAFTS = {
    "as it is": lambda values, _: values,
    "huge": lambda values, _: values * 1e18,
    "nearly infinite": lambda values, _: values.sign() * 3e38,
    "small": lambda values, _: values * 1e-22,
    "subnormal": lambda values, _: values.sign() * 1e-44,
    "of all sizes": lambda values, generator: powers(values, generator, -44, 38),
    "of large sizes": lambda values, generator: powers(values, generator, 0, 20),
    "no number": lambda values, _: torch.full_like(values, torch.nan),
    "infinite": lambda values, _: torch.full_like(values, torch.inf),
}
WHERE = {
    "everywhere": lambda place, count: True,
    "in the first layer": lambda place, count: place == 0,
    "in the last layer": lambda place, count: place >= count - 2,
    "in every second layer": lambda place, count: place % 2 == 0,
}


def images(tmp_path):
    return a_client({"method": "fedavg", "dataset": "digits", "partition": "iid"})[0]


def sphere(tmp_path):
    keys = {"method": "spherefed", "dataset": "digits", "partition": "iid"}
    return a_client(keys)[0]


def graphs(tmp_path, model="gin"):
    write_tu(tmp_path, graphs=tu_graphs(120))  # for ten clients
    keys = {"method": "fedavg", "dataset": "mutag", "data-dir": str(tmp_path), "model": model}
    return a_client(keys | {"partition": "random", "train-size": 0.6})[0]


def lorentz(tmp_path):
    return graphs(tmp_path, "lorentz")


def norm_of(sums):
    return float(sum(value.square().sum() for value in sums.values()).sqrt())


def one_less(total_of, number):
    """The norm of what each of the examples adds to the sum over all."""
    everybody = torch.arange(number)
    all_sums = total_of(everybody)
    for left_out in range(number):
        fewer_sums = total_of(everybody[everybody != left_out])
        yield norm_of({name: value - fewer_sums[name] for name, value in all_sums.items()})


@pytest.mark.parametrize("where", only(WHERE, "everywhere".__eq__))
@pytest.mark.parametrize("client", [images, sphere, graphs, lorentz])
def test_no_parameters_make_an_example_count_for_more_than_the_clip(client, where, tmp_path):
    client = client(tmp_path)
    number = min(NUMBER, client.task.num_examples)
    assert number > 2
    client.model.eval()  # without dropout, whose draws are another matter
    trained = [value for value in client.model.parameters() if value.requires_grad]
    start = [value.detach().clone() for value in trained]
    gradients = ExampleGradients(client.model, client.learner.loss)

    def total_of(positions):
        return clipped_sum(gradients, client.task.batches_of(positions, number), CLIP)

    for name, craft in CRAFTS.items():
        generator = torch.Generator().manual_seed(0)
        for place, (value, first) in enumerate(zip(trained, start, strict=True)):
            is_crafted = WHERE[where](place, len(trained))
            value.data = craft(first, generator) if is_crafted else first.clone()
        added = list(one_less(total_of, number))
        assert max(added) <= CLIP * (1 + 1e-9), name


class _Rounding(nn.Module):
    """Its logits are 10⁹ times the rounding errors of products."""

    def __init__(self, size):
        super().__init__()
        first, second = torch.randn(2, 16, size, generator=torch.Generator().manual_seed(0))
        self.products = nn.Parameter(torch.cat([first, second, first + second]))
        signs = torch.tensor([1.0, 1.0, -1.0]).repeat_interleave(16)
        self.signs = nn.Parameter(1e9 * torch.stack([signs, -signs]))

    def forward(self, rows):
        return rows @ self.products.t() @ self.signs.t()


class _Rows:
    """Examples of label 0 whose inputs are rows."""

    def __init__(self, number, size):
        self.rows = torch.randn(number, size, generator=torch.Generator().manual_seed(1))
        self.num_examples = number
        self.batch_shapes = set()

    def batches_of(self, positions, size):
        for chunk in positions.split(size):
            inputs = self.rows[filled_up(chunk, size)]
            self.batch_shapes.add(inputs.shape)
            yield Batch(inputs, torch.zeros_like(chunk), torch.arange(len(chunk)))


def cross_entropy(model, batch):
    return nn.functional.cross_entropy(model(batch.inputs), batch.labels)


@pytest.mark.parametrize("size", [64, 400, 784])
@pytest.mark.parametrize("number", [2, 4, 5])
def test_one_record_does_not_change_how_others_are_rounded(size, number):
    """With a record less, products of three rows were rounded otherwise than those of four: a
    network that magnifies errors changed the gradients of all."""
    task = _Rows(number, size)
    gradients = ExampleGradients(_Rounding(size), cross_entropy)

    def total_of(positions):
        return clipped_sum(gradients, task.batches_of(positions, number), CLIP)

    assert max(one_less(total_of, number)) <= CLIP * (1 + 1e-9)


def test_all_steps_have_batches_of_one_shape():
    task = _Rows(50, 64)
    source = Noise()
    source.seed([1])
    model = _Rounding(64)
    optimizer = SimpleNamespace(step=lambda: None)
    PrivateSteps(0.2, CLIP, 1.0, source).train(model, task, optimizer, 40, (), 0.0, cross_entropy)
    assert task.batch_shapes == {(16, 64)}


@pytest.mark.parametrize("client", [images, graphs])
def test_an_example_is_computed_the_same_whatever_others_there_are(client, tmp_path):
    client = client(tmp_path)
    client.model.eval()
    number = client.task.num_examples
    gradients = ExampleGradients(client.model, client.learner.loss)

    def rows_of(positions):
        batches = client.task.batches_of(positions, 8)
        rows = [torch.cat(list(gradients.rows(batch).values()), dim=1) for batch in batches]
        return {row.numpy().tobytes() for row in torch.cat(rows)}

    everybody = torch.arange(number)
    all_rows = rows_of(everybody)
    for positions in (everybody[1:], everybody[:3], everybody[-1:], everybody.flip(0)[::2]):
        assert rows_of(positions) <= all_rows

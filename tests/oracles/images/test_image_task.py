"""What a task makes of a client's images, against a plain loop over them."""

import copy

import pytest
import torch
import torch.nn.functional as F
from errors import refuses
from hypothesis import given
from hypothesis import strategies as st
from task_losses import losses as task_losses
from torch import Tensor

from curvfed.tasks.images import client_task
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.client_task import ImageTask, evaluate, objective
from curvfed.tasks.images.models import ImageModelSpec, ImageNet
from curvfed.tasks.images.nets import has_batch_norm

CPU = torch.device("cpu")
NAMES = ("cat", "dog")
FEDERATION = ("ant", "cat", "cow", "dog")
NUMBERS = (1, 3)
MEAN, STD = (0.4, 0.5), (0.2, 0.3)
CROSS_ENTROPY = objective("cross-entropy")


def client_of(
    num_train: int, num_val: int = 0, num_test: int = 0, side: int = 8, seed: int = 0
) -> ClientImages:
    """A client whose parts are mixed up, and whose image n has n as its first pixel."""
    num = num_train + num_val + num_test
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (num, 2, side, side), generator=generator).to(torch.uint8)
    images[:, 0, 0, 0] = torch.arange(num)
    roles = torch.tensor([0] * num_train + [1] * num_val + [2] * num_test, dtype=torch.int64)
    roles = roles[torch.randperm(num, generator=generator)]
    return ClientImages(
        images=images,
        labels=torch.randint(0, 2, (num,), generator=generator),
        train=roles == 0,
        val=roles == 1,
        test=roles == 2,
        class_names=NAMES,
        mean=MEAN,
        std=STD,
        augments=False,
        digest="",
        partition_digest="",
    )


def net_of(norm: str = "none", kind: str = "cnn", num_classes: int = 4, **head) -> ImageNet:
    spec = ImageModelSpec(
        kind=kind, shape=(2, 8, 8), norm=norm, embedding_dim=5, num_classes=num_classes, **head
    )
    return spec.build(0)


def normalised(client: ClientImages, chosen: Tensor) -> Tensor:
    """As torchvision's ToTensor and Normalize do it."""
    pixels = client.images[chosen].double() / 255
    mean, std = (torch.tensor(values, dtype=torch.float64)[:, None, None] for values in (MEAN, STD))
    return ((pixels - mean) / std).float()


def task_of(client: ClientImages, batch_size: int, loss=CROSS_ENTROPY, **options) -> ImageTask:
    return ImageTask(client, FEDERATION, CPU, batch_size, loss, **options)


def recorder(calls: list[tuple[Tensor, Tensor]]):
    """An objective that keeps what it is given."""

    def loss(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
        calls.append((images, labels))
        return images.sum()

    return loss


def numbers_of(images: Tensor) -> list[int]:
    """Which images these are, by their first pixels."""
    return (255 * (images[:, 0, 0, 0] * STD[0] + MEAN[0])).round().int().tolist()


@given(st.integers(0, 40), st.integers(0, 45), st.booleans())
def test_a_pass_takes_every_training_image_once(num_train, batch_size, batch_norm):
    client, calls = client_of(num_train, 3, 2), []
    task = task_of(client, batch_size, recorder(calls), has_batch_norm=batch_norm)
    torch.manual_seed(1)
    assert len(list(task_losses(task, net_of()))) == task.num_steps == len(calls)
    assert task.num_examples == num_train
    drawn = [number for images, _ in calls for number in numbers_of(images)]
    assert sorted(drawn) == client.train.nonzero().squeeze(1).tolist()
    for images, labels in calls:
        chosen = torch.tensor(numbers_of(images))
        torch.testing.assert_close(images, normalised(client, chosen), rtol=1e-5, atol=1e-6)
        assert labels.tolist() == [NUMBERS[label] for label in client.labels[chosen]]
    sizes, size = [len(images) for images, _ in calls], batch_size or num_train
    full, remainder = divmod(num_train, size) if num_train else (0, 0)
    expected = [size] * full + [remainder] * (remainder > 0)
    if batch_norm and remainder == 1 and full and size > 1:
        expected[-2:] = [size + 1]
    assert sizes == expected


def test_training_is_that_of_a_plain_loop():
    client, losses = client_of(23, 4, 4), []
    models = net_of(), net_of()
    task = task_of(client, 5)
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]
    torch.manual_seed(3)
    for loss in task_losses(task, models[0]):
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()
        losses.append(loss.item())
    torch.manual_seed(3)
    train = client.train.nonzero().squeeze(1)
    order = train[torch.randperm(23)]
    for start, ours in zip(range(0, 23, 5), losses, strict=True):
        chosen = order[start : start + 5]
        labels = torch.tensor([NUMBERS[label] for label in client.labels[chosen]])
        loss = F.cross_entropy(models[1](normalised(client, chosen)), labels)
        assert ours == pytest.approx(loss.item(), rel=1e-5)
        optimizers[1].zero_grad()
        loss.backward()
        optimizers[1].step()
    for ours, expected in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(ours, expected)


def test_augmentation_is_of_training_alone_and_fills_with_black():
    client, calls = client_of(30, 5, 5), []
    task = task_of(client, 30, recorder(calls), augment=True)
    list(task_losses(task, net_of()))
    (images, _), black = calls[0], -torch.tensor(MEAN) / torch.tensor(STD)
    assert images.shape == (30, 2, 8, 8)
    in_black = (images - black[:, None, None]).abs().amax(dim=1) <= 1e-6
    assert in_black.any(dim=(1, 2)).float().mean() > 0.9  # 1 in 81 is not shifted
    torch.testing.assert_close(
        task.logits(net_of(), "test"), task_of(client, 30).logits(net_of(), "test")
    )


@pytest.mark.parametrize("batch", [1, 7, 512])
def test_logits_features_and_scores(monkeypatch, batch):
    monkeypatch.setattr(client_task, "EVALUATION_BATCH", batch)
    client, model = (
        client_of(9, 13, 20),
        net_of(norm="batch", kind="convnet", head="sphere", start="orthonormal"),
    )
    model.train()
    model(normalised(client, torch.arange(42)))  # running statistics that are not those of a batch
    task = task_of(client, 4)
    reference = copy.deepcopy(model).eval()
    scores = task.scores(model)
    for split, name in (("train", ""), ("val", "validation"), ("test", "score")):
        chosen = getattr(client, split).nonzero().squeeze(1)
        features = reference.features(normalised(client, chosen))
        labels = torch.tensor([NUMBERS[label] for label in client.labels[chosen]])
        batches = list(task.features(model, split))
        assert [len(rows) for rows, _ in batches] == [len(rows) for rows in chosen.split(batch)]
        outputs, got_labels = (torch.cat(column) for column in zip(*batches, strict=True))
        torch.testing.assert_close(outputs, features, rtol=1e-4, atol=1e-5)
        assert torch.equal(got_labels, labels)
        logits = reference.head(features)
        torch.testing.assert_close(task.logits(model, split), logits, rtol=1e-4, atol=1e-5)
        if name:
            assert scores[name] == pytest.approx(
                (logits.argmax(dim=1) == labels).double().mean().item()
            )
    assert scores.keys() == {"validation", "score"}
    assert not model.training


def test_a_head_can_be_trained_on_the_features():
    task, model = task_of(client_of(6), 4), net_of()
    for features, labels in task.features(model):
        assert not features.requires_grad
        F.cross_entropy(model.head(features), labels).backward()
    assert model.head.weight.grad is not None
    assert all(parameter.grad is None for parameter in model.body.parameters())


def test_a_client_without_images():
    client = client_of(0)
    task, model = task_of(client, 4, has_batch_norm=True), net_of()
    assert (
        task.num_examples,
        task.num_steps,
        list(task_losses(task, model)),
        task.scores(model),
    ) == (
        0,
        0,
        [],
        {},
    )
    assert task.logits(model, "train").shape == (0, 4)
    assert list(task.features(model)) == []
    statistics = client.statistics()
    assert (
        statistics["num_train"],
        statistics["num_val"],
        statistics["num_test"],
        statistics["class_counts"],
    ) == (0, 0, 0, (0, 0))
    assert statistics["majority_accuracy"] is None


@pytest.mark.parametrize(
    ("num_train", "batch_size", "is_unchanged"), [(1, 4, True), (3, 1, True), (5, 4, False)]
)
def test_one_image_is_no_batch_for_batch_normalisation(num_train, batch_size, is_unchanged):
    """ConvNet's last layer sees one place per image: statistics over one value would be an error."""
    spec = ImageModelSpec(
        kind="convnet", shape=(2, 16, 16), norm="batch", embedding_dim=5, num_classes=4
    )
    model = spec.build(0).train()
    client = client_of(num_train, 0, 2, side=16)
    assert has_batch_norm(model)
    task = task_of(client, batch_size, has_batch_norm=True)
    before = {
        name: value.clone() for name, value in model.state_dict().items() if "running" in name
    }
    losses = list(task_losses(task, model))
    assert len(losses) == task.num_steps
    losses[0].backward()
    assert all(loss.isfinite() for loss in losses)
    assert (
        all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
        == is_unchanged
    )
    assert model.training
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_mixed_precision_is_of_training_and_keeps_losses_in_float32():
    client, model = client_of(12, 0, 12), net_of()
    exact, rounded = task_of(client, 0), task_of(client, 0, mixed_precision=True)
    losses = []
    for task in (exact, rounded):
        torch.manual_seed(0)
        (loss,) = task_losses(task, model.train())
        assert loss.dtype == torch.float32
        loss.backward()
        losses.append(loss.item())
    assert 0 < abs(losses[0] - losses[1]) <= 0.02
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
    assert torch.equal(rounded.logits(model, "test"), exact.logits(model, "test"))


def test_statistics():
    client = client_of(7, 3, 6)
    train, test = client.labels[client.train].tolist(), client.labels[client.test].tolist()
    statistics = client.statistics()
    assert (statistics["num_train"], statistics["num_val"], statistics["num_test"]) == (7, 3, 6)
    assert statistics["class_counts"] == (
        client.labels.tolist().count(0),
        client.labels.tolist().count(1),
    )
    assert statistics["majority_accuracy"] == test.count(max((0, 1), key=train.count)) / 6
    assert client_of(7, 3, 0).statistics()["majority_accuracy"] is None


@pytest.mark.parametrize("batch", [3, 512])
def test_evaluation_of_the_test_images(monkeypatch, batch):
    monkeypatch.setattr(client_task, "EVALUATION_BATCH", batch)
    client, model = client_of(4, 3, 11), net_of().eval()
    labels, predicted, features = evaluate(model, client, FEDERATION, CPU)
    chosen = client.test.nonzero().squeeze(1)
    assert labels.tolist() == [NUMBERS[label] for label in client.labels[chosen]]
    with torch.no_grad():
        torch.testing.assert_close(
            features, model.features(normalised(client, chosen)), rtol=1e-4, atol=1e-5
        )
        assert torch.equal(predicted, model.head(features).argmax(dim=1))


def test_logits_that_are_not_finite_are_wrong():
    client, model = client_of(0, 0, 6), net_of()
    with torch.no_grad():
        model.head.bias[NUMBERS[0]] = torch.nan  # argmax would take it
    labels, predicted, _ = evaluate(model, client, FEDERATION, CPU)
    assert predicted.tolist() == [-1] * 6
    assert not (labels == predicted).any()
    assert task_of(client, 0).scores(model) == {"score": 0.0}


def test_an_unknown_class_is_refused_by_name():
    with refuses("unknown-class"):
        ImageTask(client_of(3), ("ant", "cat"), CPU, 0, CROSS_ENTROPY)

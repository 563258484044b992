"""Local objectives against their formulas, in 50 digits, and HyperFed's optimiser."""

import math

import mpmath
import pytest
import torch
from mpmath import mpf
from peer_maps import GeooptHead
from scipy import stats
from torch import nn

from curvfed.tasks.heads import HeadSpec, head_start, make_head
from curvfed.tasks.images.client_task import objective
from curvfed.tasks.images.models import ImageNet

DTYPES = [torch.float32, torch.float64]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
ONE_AND_ALL = pytest.mark.parametrize("negatives", ["one", "all"])


def model_of(kind="prototypes", num_classes=10, dim=20, dtype=torch.float32, **entries):
    """A model whose features are the pixels."""
    spec = HeadSpec(kind, num_classes, dim, fixed=True, start="uniform", **entries)
    head = make_head(spec)
    head.load_state_dict(head_start(spec, 3))
    return ImageNet(nn.Sequential(nn.Flatten()), head).to(dtype)


def images_of(num, dim=20, length=1.0, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    directions = nn.functional.normalize(
        torch.randn(num, dim, generator=generator, dtype=torch.float64)
    )
    return (length * directions).to(dtype)[:, None, None]


def labels_of(num, num_classes=10):
    return torch.arange(num) * 7 % num_classes


def exact_distances(model, images):
    """HyperFed's Eqs. 6 and 1, as printed, in the working precision of mpmath."""
    points = []
    for image in images.flatten(1).tolist():
        z = [mpf(value) for value in image]
        norm = mpmath.sqrt(mpmath.fsum(value**2 for value in z))
        points.append([mpmath.tanh(norm) * value / norm for value in z] if norm else z)
    prototypes = [[mpf(value) for value in row] for row in model.head.prototypes.tolist()]
    return [[exact_distance(x, w) for w in prototypes] for x in points]


def exact_distance(x, w):
    apart, xx, ww = (
        mpmath.fsum(v**2 for v in values) for values in ([a - b for a, b in zip(x, w)], x, w)
    )
    return mpmath.acosh(1 + 2 * apart / ((1 - xx) * (1 - ww)))


@both_dtypes
@pytest.mark.parametrize("length", [0.0, 1e-3, 0.5, 1.4722, 4.0, 10.0])
def test_distance_losses_to_five_parts_in_a_million(dtype, length):
    num, margin = 6, 0.75
    model, images, labels = (
        model_of(dtype=dtype),
        images_of(num, length=length, dtype=dtype),
        labels_of(num),
    )
    with mpmath.workdps(50):
        distances = exact_distances(model, images)
        own_distances = [row[label] for row, label in zip(distances, labels.tolist())]
        other_distances = [
            [d for i, d in enumerate(row) if i != label]
            for row, label in zip(distances, labels.tolist())
        ]
        hinges = [
            [max(mine - distance + margin, 0) for distance in row]
            for mine, row in zip(own_distances, other_distances)
        ]
        expected = {
            "geodesic": mpmath.fsum(own_distances) / num,
            "triplet": mpmath.fsum(mpmath.fsum(row) / 9 for row in hinges) / num,
        }
        for kind, value in expected.items():
            loss = objective(kind, margin=margin, negatives="all")(model, images, labels)
            assert loss.shape == ()
            assert loss.dtype == dtype
            assert abs(mpf(loss.item()) - value) <= (5e-6 if dtype == torch.float32 else 2e-14)


def test_one_negative_is_drawn_uniformly_from_the_other_classes():
    model = model_of(num_classes=4, dim=3)
    images, labels = images_of(1, 3).expand(4, 1, 1, 3), torch.arange(4)
    distances = -model(images[:1])[0]
    values = (distances[:, None] - distances + 2.0).relu()
    loss, counts = objective("triplet", margin=2.0), torch.zeros(4, 4)
    torch.manual_seed(0)
    for label in range(4):
        for _ in range(300):
            drawn = loss(model, images[:1], labels[label : label + 1])
            counts[label, (values[label] - drawn).abs().argmin()] += 1
            assert (values[label] - drawn).abs().min() <= 1e-6
    assert not counts.diagonal().any()
    for label in range(4):
        other_counts = counts[label][torch.arange(4) != label]
        assert stats.chisquare(other_counts.numpy()).pvalue > 0.001


def test_one_negative_is_drawn_for_each_image_and_anew_at_each_step():
    model, images, labels = (
        model_of(),
        images_of(1).expand(500, 1, 1, 20),
        torch.zeros(500, dtype=torch.int64),
    )
    distances = -model(images[:1])[0]
    # All images are alike and the hinge does not act: one draw for the batch would give one of 9
    # values.
    loss = objective("triplet", margin=50.0)
    torch.manual_seed(0)
    first, second = (loss(model, images, labels).item() for _ in range(2))
    losses = distances[0] - distances[1:] + 50.0
    assert first != second
    assert abs(first - losses.mean().item()) <= 5 * losses.std().item() / math.sqrt(500)
    torch.manual_seed(0)
    assert loss(model, images, labels).item() == first


@both_dtypes
@pytest.mark.parametrize("kind", ["triplet", "geodesic"])
@ONE_AND_ALL
def test_gradients_are_finite_at_the_origin_on_a_prototype_and_far_out(dtype, kind, negatives):
    model = model_of(dtype=dtype)
    far = images_of(3, length=80.0, dtype=dtype)
    on_prototype = (
        torch.atanh(torch.tensor(0.9, dtype=dtype)) / 0.9 * model.head.weight[:1]
    ).detach()[:, None, None]
    images = torch.cat([torch.zeros_like(far[:1]), on_prototype, far]).requires_grad_()
    labels = torch.tensor([4, 0, 1, 2, 3])
    loss = objective(kind, margin=200.0, negatives=negatives)(model, images, labels)
    loss.backward()
    assert loss.isfinite()
    gradient = images.grad.flatten(1)
    assert gradient.isfinite().all()
    assert gradient[0].any()
    along = nn.functional.normalize(images.detach().flatten(1))
    # Far out the distance to any prototype grows as 2‖z‖ does: twice for the image's own, and never
    # in a difference.
    expected = torch.full((3,), 2 / 5 if kind == "geodesic" else 0.0, dtype=dtype)
    torch.testing.assert_close((gradient * along).sum(dim=1)[2:], expected, rtol=1e-5, atol=1e-6)
    # and the direction is still pulled
    assert (gradient[2:] - expected[:, None] * along[2:]).norm(dim=1).min() > 1e-4


@both_dtypes
@pytest.mark.parametrize("length", [0.2, 2.0, 80.0])
def test_the_gradient_of_the_triplet_loss(dtype, length):
    images, labels = images_of(1, 3, length, dtype).requires_grad_(), torch.tensor([1])
    model = model_of(num_classes=2, dim=3, dtype=dtype)
    objective("triplet", margin=50.0)(model, images, labels).backward()
    prototypes = [[mpf(value) for value in row] for row in model.head.prototypes.tolist()]

    def loss(*z):
        norm = mpmath.sqrt(mpmath.fsum(value**2 for value in z))
        x = [mpmath.tanh(norm) * value / norm for value in z]
        return exact_distance(x, prototypes[1]) - exact_distance(x, prototypes[0])

    with mpmath.workdps(250):  # 1 − tanh²(80) = 1e-69
        point = tuple(mpf(value) for value in images.detach().flatten().tolist())
        for i, slope in enumerate(images.grad.flatten().tolist()):
            expected = mpmath.diff(loss, point, tuple(int(i == j) for j in range(3)))
            assert abs(mpf(slope) - expected) <= 64 * torch.finfo(dtype).eps


@both_dtypes
@pytest.mark.parametrize("num_classes", [1, 2, 10])
def test_mse_by_its_formula(dtype, num_classes):
    model = model_of("sphere", num_classes, dtype=dtype)
    images, labels = images_of(12, length=5.0, dtype=dtype), labels_of(12, num_classes)
    expected = 0.0
    for image, label in zip(images.flatten(1).double(), labels.tolist()):
        for i, row in enumerate(model.head.weight.double()):
            expected += (float(row @ image / image.norm()) - (i == label)) ** 2 / num_classes / 12
    loss = objective("mse")(model, images, labels)
    assert loss.dtype == dtype
    assert loss.item() == pytest.approx(expected, rel=30 * torch.finfo(dtype).eps)


def test_the_term_of_mixup_by_its_formula(monkeypatch):
    model, images = model_of(num_classes=5, dim=4), images_of(6, 4, 3.0)
    drawn, order = torch.tensor(0.3), torch.tensor([2, 0, 5, 1, 3, 4])
    # as labels: under a margin of 0 no hinge acts, and mixup is all there is
    nearest = model(images).argmax(dim=1)
    monkeypatch.setattr(torch, "rand", lambda *size, **options: drawn)
    monkeypatch.setattr(torch, "randperm", lambda num, **options: order)
    loss = objective("triplet", margin=0.0, negatives="all", mixup=2.0)(model, images, nearest)
    share = math.sin(0.15 * math.pi) ** 2
    mixed = (share * images + (1 - share) * images[order]).flatten(1).double()
    cosines = nn.functional.normalize(mixed) @ nn.functional.normalize(model.head.weight.double()).T
    terms = -cosines.log_softmax(dim=1)
    rows = torch.arange(6)
    expected = 2 * (
        share * terms[rows, nearest].mean() + (1 - share) * terms[rows, nearest[order]].mean()
    )
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)


def test_the_shares_of_mixup_have_their_beta_distribution(monkeypatch):
    torch.manual_seed(0)
    model, images, labels, shares = model_of(), images_of(4), labels_of(4), []
    lerp = torch.lerp
    monkeypatch.setattr(
        torch, "lerp", lambda start, end, weight: shares.append(weight) or lerp(start, end, weight)
    )
    loss = objective("triplet", mixup=1.0)
    for _ in range(500):
        loss(model, images, labels)
    assert stats.kstest(torch.stack(shares).numpy(), stats.beta(0.5, 0.5).cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("loss", "negatives"), [("triplet", "one"), ("triplet", "all"), ("geodesic", "one")]
)
def test_the_same_loss_with_geoopts_distance(loss, negatives):
    model, labels = model_of(dtype=torch.float64), labels_of(20)
    peer = ImageNet(model.body, GeooptHead(model.head.prototypes.detach()))
    values = []
    for net in (model, peer):
        images = images_of(20, dtype=torch.float64).requires_grad_()
        torch.manual_seed(0)  # of the negatives that are drawn
        value = objective(loss, negatives=negatives)(net, images, labels)
        values.append((value.detach(), *torch.autograd.grad(value, images)))
    for ours, theirs in zip(*values, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)

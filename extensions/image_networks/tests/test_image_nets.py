"""Networks for images against the papers' tables, and against torchvision's ResNet-18."""

import importlib.util
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.images.nets import NETS, has_batch_norm, num_groups

Row = tuple[int, int, int, int, int]
"""Of a table: channels in and out, kernel, stride, groups."""

PLAIN = ("cnn", "convnet", "vgg13", "mobilenetv2")
RESIDUAL = ("resnet18", "resnet18-7x7", "senet18")
TABLES = ("convnet", "vgg13", "mobilenetv2", "resnet18", "senet18")
WIDTHS = {"convnet": 1024, "vgg13": 512, "mobilenetv2": 1280, "resnet18": 512, "senet18": 512}
LEAST = {"vgg13": 16}

NEAR = 500  # in eps of the largest feature: some 50 layers of 10 eps each

# Table 11: (in, out, stride), kernels of 3.
CONVNET = [
    (3, 32, 1),
    (32, 64, 2),
    (64, 64, 2),
    (64, 64, 1),
    (64, 128, 2),
    (128, 128, 1),
    (128, 256, 2),
]
# Table 12: (in, out), kernels of 3; None is a maximum.
VGG13 = [(3, 64), (64, 64), None, (64, 128), (128, 128), None, (128, 256), (256, 256), None]
VGG13 += [(256, 512), (512, 512), None, (512, 512), (512, 512), None]
# Tables 13 and 15: (in, out, stride of the first convolution) of each block of two; 0 is TIN_S.
BLOCKS = [
    (64, 64, 0),
    (64, 64, 1),
    (64, 128, 2),
    (128, 128, 1),
    (128, 256, 2),
    (256, 256, 1),
    (256, 512, 2),
    (512, 512, 1),
]
# Table 14: (in, inner, out, stride, repetition) of B1 to B12; 0 is TIN_S.
MOBILENETV2 = [
    (32, 32, 16, 1, 1),
    (16, 96, 24, 0, 1),
    (24, 144, 24, 1, 1),
    (24, 144, 32, 2, 1),
    (32, 192, 32, 1, 2),
]
MOBILENETV2 += [(32, 192, 64, 2, 1), (64, 384, 64, 1, 3), (64, 384, 96, 1, 1), (96, 576, 96, 1, 2)]
MOBILENETV2 += [(96, 576, 160, 2, 1), (160, 960, 160, 1, 2), (160, 960, 320, 1, 1)]


def table(name: str, tin: int) -> list[Row]:
    """The convolutions that the paper lists."""
    if name == "convnet":
        return [(a, b, 3, stride, 1) for a, b, stride in CONVNET]
    if name == "vgg13":
        return [(*row, 3, 1, 1) for row in VGG13 if row]
    if name == "mobilenetv2":
        rows: list[Row] = [(3, 32, 3, 1, 1)]
        for a, inner, b, stride, times in MOBILENETV2:
            block = [
                (a, inner, 1, 1, 1),
                (inner, inner, 3, stride or tin, inner),
                (inner, b, 1, 1, 1),
            ]
            rows += block * times
        return [*rows, (320, 1280, 1, 1, 1)]
    rows = [(3, 64, 3, 1, 1)]
    for a, b, stride in BLOCKS:
        rows += [(a, b, 3, stride or tin, 1), (b, b, 3, 1, 1)]
    return rows


def unlisted(name: str, tin: int) -> int:
    """Parameters that tables leave out: shortcuts and insides of squeeze-and-excitation."""
    if name not in ("resnet18", "senet18"):
        return 0
    count = sum(a * b + 2 * b for a, b, stride in BLOCKS if a != b or (stride or tin) != 1)
    if name == "senet18":
        count += sum(2 * b * (b // 16) + b // 16 + b for _, b, _ in BLOCKS)
    return count


def build_net(name: str, shape: tuple[int, int, int], norm: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return NETS[name](shape, norm)[0]


def convolutions(body: nn.Module) -> list[Row]:
    """Those that the tables list, in order."""
    return [
        (m.in_channels, m.out_channels, m.kernel_size[0], m.stride[0], m.groups)
        for where, m in body.named_modules()
        if isinstance(m, nn.Conv2d) and not {"downsample", "fc1", "fc2"} & set(where.split("."))
    ]


@pytest.mark.parametrize(("side", "tin"), [(32, 1), (64, 2)])
@pytest.mark.parametrize("name", TABLES)
def test_layers_and_parameters_are_the_tables(name: str, side: int, tin: int) -> None:
    with torch.device("meta"):
        body, width = NETS[name]((3, side, side), "group")
    rows = table(name, tin)
    assert convolutions(body) == rows
    listed = sum(k * k * (a // groups) * b + 2 * b for a, b, k, _, groups in rows)
    counted = sum(p.numel() for p in body.parameters()) + 100 * width
    if name != "convnet" or side == 32:  # 64x64 is not ConvNet's: it flattens
        assert width == WIDTHS[name]
        assert counted == listed + unlisted(name, tin) + 100 * WIDTHS[name]


@pytest.mark.parametrize("training", [True, False])
def test_resnet_is_torchvisions(training: bool) -> None:
    from torchvision.models import resnet18

    body = build_net("resnet18-7x7", (3, 40, 33), "batch").double()
    oracle = resnet18().double()
    oracle.fc = nn.Identity()
    ours = body.state_dict()
    assert [v.shape for v in ours.values()] == [v.shape for v in oracle.state_dict().values()]
    oracle.load_state_dict(dict(zip(oracle.state_dict(), ours.values(), strict=True)))
    images = torch.randn(2, 3, 40, 33, dtype=torch.float64)
    assert torch.equal(body.train(training)(images), oracle.train(training)(images))


class Reference:
    """Computes a network from its table by torch, with the parameters in the table's order."""

    def __init__(self, body: nn.Module, norm: str) -> None:
        self.parameters: Iterator[Tensor] = iter(list(body.parameters()))
        self.norm = norm

    def conv(self, x: Tensor, row: Row, relu: bool = True) -> Tensor:
        _, out, kernel, stride, groups = row
        weight = next(self.parameters)
        bias = next(self.parameters) if self.norm == "none" else None
        x = F.conv2d(x, weight, bias, stride, (kernel - 1) // 2, groups=groups)
        if self.norm == "group":
            cut = x.reshape(len(x), num_groups(out), -1)
            cut = (cut - cut.mean(2, keepdim=True)) / (
                cut.var(2, keepdim=True, correction=0) + 1e-5
            ).sqrt()
            scale, shift = next(self.parameters), next(self.parameters)
            x = cut.reshape(x.shape) * scale[:, None, None] + shift[:, None, None]
        return x.clamp(min=0) if relu else x

    def squeeze(self, x: Tensor) -> Tensor:
        down, down_bias, up, up_bias = (next(self.parameters) for _ in range(4))
        inner = (x.mean((2, 3)) @ down[:, :, 0, 0].T + down_bias).clamp(min=0)
        return x * torch.sigmoid(inner @ up[:, :, 0, 0].T + up_bias)[:, :, None, None]

    def __call__(self, name: str, x: Tensor, tin: int) -> Tensor:
        if name == "convnet":
            for row in table(name, tin):
                x = self.conv(x, row)
            return x.flatten(1)
        if name == "vgg13":
            for number, row in enumerate(VGG13):
                last = number == len(VGG13) - 1
                x = (
                    self.conv(x, (*row, 3, 1, 1))
                    if row
                    else F.max_pool2d(x, 2 * tin if last else 2)
                )
            return x.flatten(1)
        x = self.conv(x, table(name, tin)[0])
        if name == "mobilenetv2":
            for a, inner, b, stride, times in MOBILENETV2:
                for _ in range(times):
                    y = self.conv(
                        self.conv(x, (a, inner, 1, 1, 1)), (inner, inner, 3, stride or tin, inner)
                    )
                    y = self.conv(y, (inner, b, 1, 1, 1), relu=False)
                    x = x + y if x.shape == y.shape else y
            return self.conv(x, (320, 1280, 1, 1, 1)).mean((2, 3))
        for a, b, stride in BLOCKS:
            y = self.conv(self.conv(x, (a, b, 3, stride or tin, 1)), (b, b, 3, 1, 1), relu=False)
            y = self.squeeze(y) if name == "senet18" else y
            x = (
                y
                + (
                    x
                    if x.shape == y.shape
                    else self.conv(x, (a, b, 1, stride or tin, 1), relu=False)
                )
            ).clamp(min=0)
        return x.mean((2, 3))


@pytest.mark.parametrize(("norm", "side", "tin"), [("group", 32, 1), ("none", 64, 2)])
@pytest.mark.parametrize("name", TABLES)
def test_features_are_those_of_the_table(name: str, norm: str, side: int, tin: int) -> None:
    body = build_net(name, (3, side, side), norm).double()
    with torch.no_grad():
        for parameter in body.parameters():
            if parameter.ndim == 1:  # biases, scales and shifts start where they do nothing
                parameter += 0.1 * torch.randn_like(parameter)
        images = torch.randn(1, 3, side, side, dtype=torch.float64)
        reference = Reference(body, norm)
        expected = reference(name, images, tin)
        assert next(reference.parameters, None) is None
        assert expected.abs().max() > 0
        for dtype in (torch.float64, torch.float32):
            features = body.to(dtype)(images.to(dtype))
            assert (features - expected).abs().max() <= NEAR * torch.finfo(
                dtype
            ).eps * expected.abs().max()


@pytest.mark.parametrize("shape", [(1, 16, 16), (1, 28, 28), (3, 40, 33), (2, 96, 70)])
@pytest.mark.parametrize("name", NETS)
def test_features_have_the_width_that_is_reported(name: str, shape: tuple[int, int, int]) -> None:
    with torch.device("meta"):
        body, width = NETS[name](shape, "none")
        assert body(torch.empty(2, *shape)).shape == (2, width)


@pytest.mark.parametrize("shape", [(512, 1, 1), (1, 8, 8)])
def test_features_are_the_values_on_one_scale(shape: tuple[int, int, int]) -> None:
    body, width = NETS["features"](shape, "group")
    images = 3 + 40 * torch.randn(5, *shape)
    rows = images.flatten(start_dim=1)
    scaled = (rows - rows.mean(dim=1, keepdim=True)) / rows.std(dim=1, correction=0, keepdim=True)
    assert width == rows.shape[1]
    torch.testing.assert_close(body(images), scaled)
    assert not list(body.parameters())


@pytest.mark.parametrize("name", NETS)
def test_the_least_image_alone_is_enough_with_group_normalisation(name: str) -> None:
    side = LEAST.get(name, 8)
    body = build_net(name, (1, side, side), "group").train()
    features = body(torch.rand(1, 1, side, side))
    assert features.isfinite().all()
    assert features.abs().max() > 0


@pytest.mark.parametrize("norm", ["group", "batch", "none"])
@pytest.mark.parametrize("name", NETS)
def test_normalisation_is_what_is_asked_for_and_biases_are_where_it_is_not(
    name: str, norm: str
) -> None:
    with torch.device("meta"):
        body, _ = NETS[name]((3, 32, 32), norm)
    expected_norm = "none" if name in ("cnn", "features") else norm
    for where, module in body.named_modules():
        if isinstance(module, nn.Conv2d) and not {"fc1", "fc2"} & set(where.split(".")):
            assert (module.bias is not None) == (expected_norm == "none"), where
    for layer, kind in (("group", nn.GroupNorm), ("batch", nn.BatchNorm2d)):
        assert any(isinstance(module, kind) for module in body.modules()) == (
            expected_norm == layer
        )
    assert has_batch_norm(nn.Sequential(body, nn.Linear(2, 2))) == (expected_norm == "batch")


@pytest.mark.parametrize("name", NETS)
def test_features_start_at_the_size_of_the_images_without_normalisation(name: str) -> None:
    body = build_net(name, (3, 32, 32), "none")
    with torch.no_grad():
        features = body(torch.randn(2, 3, 32, 32))
    assert 0.05 < features.square().mean().sqrt() < 50


def test_plain_networks_do_without_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)  # an import of it fails
    spec = importlib.util.find_spec("curvfed.tasks.images.nets")
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    for name in PLAIN:
        fresh.NETS[name]((3, 32, 32), "group")
    assert set(fresh.NETS) == {*PLAIN, *RESIDUAL, "features"}

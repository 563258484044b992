"""What the maps say of arguments that they do not take, and how a curvature is read."""

import itertools
import math

import numpy as np
import pytest
import torch

from curvfed.geometry import lorentz, normal_coordinates, poincare

F64 = torch.float64
POINTS = {
    "lorentz.exp0": (lorentz.exp0, "v"),
    "lorentz.log0": (lorentz.log0, "x"),
    "lorentz.exp": (lorentz.exp, "xv"),
    "lorentz.log": (lorentz.log, "xy"),
    "lorentz.dist": (lorentz.dist, "xy"),
    "lorentz.project": (lorentz.project, "x"),
    "lorentz.lift": (lorentz.lift, "space"),
    "lorentz.time_from_space": (lorentz.time_from_space, "space"),
    "lorentz.normalize": (lorentz.normalize, "x"),
    "lorentz.centroid": (lambda x, c: lorentz.centroid(x, torch.ones(2), c), "x"),
    "poincare.exp0": (poincare.exp0, "v"),
    "poincare.log0": (poincare.log0, "x"),
    "poincare.exp": (poincare.exp, "xv"),
    "poincare.log": (poincare.log, "xy"),
    "poincare.dist": (poincare.dist, "xy"),
    "poincare.mobius_add": (poincare.mobius_add, "xy"),
    "poincare.project": (poincare.project, "x"),
    "poincare.cdist": (poincare.cdist, "xy"),
    "normal_coordinates.cdist": (normal_coordinates.cdist, "vw"),
}
all_functions = pytest.mark.parametrize(("function", "takes"), POINTS.values(), ids=POINTS.keys())
SETS = [function for name, (function, _) in POINTS.items() if "cdist" in name or "centroid" in name]
TAKES_0 = [function for name, (function, _) in POINTS.items() if not name.startswith("lorentz")]
NAMES = {"space": ["space"]}


def tensors_of(takes, shape=(2, 3), dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [0.2 * torch.rand(shape, generator=generator).to(dtype) for _ in NAMES.get(takes, takes)]


WRONG_TENSORS = {
    "list": torch.Tensor.tolist,
    "ndarray": torch.Tensor.numpy,
    r"torch\.int32": torch.Tensor.int,
    r"torch\.float16": torch.Tensor.half,
    r"torch\.bfloat16": torch.Tensor.bfloat16,
}


@all_functions
def test_what_is_no_tensor_of_float32_or_float64_is_refused(function, takes):
    names = NAMES.get(takes, takes)
    for (description, wrong), name in itertools.product(WRONG_TENSORS.items(), names):
        tensors = tensors_of(takes)
        number = names.index(name)
        tensors[number] = wrong(tensors[number])
        with pytest.raises(TypeError, match=rf"^{name}: got .*{description}.*float32.*float64"):
            function(*tensors, -1.0)


@all_functions
def test_points_of_two_dtypes_or_dimensions_are_refused(function, takes):
    if len(NAMES.get(takes, takes)) == 1:
        with pytest.raises(ValueError, match=r"shape \(\)"):
            function(torch.tensor(1.0), -1.0)
        return
    first, second = tensors_of(takes)
    with pytest.raises(
        TypeError, match=rf"^{takes[1]}: got torch.float64, but {takes[0]} is torch.float32"
    ):
        function(first, second.double(), -1.0)
    for wrong in (second[..., :1], second[..., :2]):
        with pytest.raises(ValueError, match=rf"^{takes[1]}: .*coordinates do not broadcast"):
            function(first, wrong, -1.0)
        with pytest.raises(ValueError, match="coordinates do not broadcast"):
            function(wrong, second, -1.0)


@all_functions
def test_what_is_no_curvature_is_refused(function, takes):
    for wrong in ("-1", None, [-1.0], np.array([-1.0]), torch.tensor(-1), 1j):
        with pytest.raises(TypeError, match=r"^curvature: got .*; allowed is a"):
            function(*tensors_of(takes), wrong)
    wrong_numbers = [1.0, math.nan, -math.inf]
    if function not in TAKES_0:
        wrong_numbers += [0, 0.0]
    for wrong in wrong_numbers:
        with pytest.raises(ValueError, match=r"hyperbolic space needs .*a negative, finite number"):
            function(*tensors_of(takes), wrong)


@all_functions
@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_a_curvature_of_any_dtype_and_shape(function, takes, dtype):
    tensors = (
        tensors_of(takes, dtype=dtype)
        if function is not POINTS["lorentz.centroid"][0]
        else tensors_of(takes)
    )
    expected = function(*tensors, -0.5)
    assert expected.dtype == tensors[0].dtype
    for curvature in (
        np.float32(-0.5),
        np.float64(-0.5),
        torch.tensor(-0.5),
        torch.tensor(-0.5, dtype=F64),
    ):
        result = function(*tensors, curvature)
        assert result.dtype == expected.dtype
        torch.testing.assert_close(result, expected)
    # one for each point, or for each set of points
    for curvature_dtype in (torch.float16, torch.float32, F64):
        curvature = torch.tensor([-0.5, -2.0], dtype=curvature_dtype, requires_grad=True)
        several = (
            [torch.stack([tensor, tensor]) for tensor in tensors] if function in SETS else tensors
        )
        result = function(*several, curvature)
        assert result.dtype == expected.dtype
        for i, value in enumerate((-0.5, -2.0)):
            torch.testing.assert_close(
                result[i], function(*(tensor[i] for tensor in several), value)
            )
        (gradient,) = torch.autograd.grad(result.sum(), curvature)
        assert gradient.dtype == curvature_dtype


def test_weights_are_checked():
    x = lorentz.lift(torch.ones(2, 3), -1.0)
    with pytest.raises(TypeError, match=r"weights: got torch.float64; allowed is torch.float32"):
        lorentz.centroid(x, torch.ones(2, dtype=F64), -1.0)
    with pytest.raises(TypeError, match="weights: got list"):
        lorentz.centroid(x, [1.0, 1.0], -1.0)
    with pytest.raises(ValueError, match=r"weights: got shape \(1,\)"):
        lorentz.centroid(x[0], torch.ones(1), -1.0)

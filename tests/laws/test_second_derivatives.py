"""Second derivatives, torch.func, compile, autocast: the maps, the heads, the networks."""

import math
import warnings
from functools import partial

import mpmath
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import hessian, jacrev, vmap

from curvfed.geometry import lorentz, normal_coordinates, poincare
from curvfed.tasks.graphs.lorentz_layers import distance_logits, exp0_factor, lorentz_linear
from curvfed.tasks.graphs.lorentz_modules import convolve
from curvfed.tasks.graphs.sparse import Constant
from curvfed.tasks.heads import HEADS, HeadSpec, head_start, make_head

F64 = torch.float64

FUNCTIONS = {
    "lorentz.exp0": (lorentz.exp0, "v"),
    "lorentz.log0": (lorentz.log0, "x"),
    "lorentz.exp": (lorentz.exp, "xu"),
    "lorentz.log": (lorentz.log, "xy"),
    "lorentz.dist": (lorentz.dist, "xy"),
    "lorentz.project": (lorentz.project, "x"),
    "lorentz.lift": (lorentz.lift, "v"),
    "lorentz.time_from_space": (lorentz.time_from_space, "v"),
    "lorentz.normalize": (lorentz.normalize, "x"),
    "lorentz.centroid": (lambda x, w, c: lorentz.centroid(x, w.square() + 0.1, c), "xw"),
    "lorentz.inner": (lambda x, y, c: lorentz.inner(x, y) + 0 * c, "xy"),
    "poincare.exp0": (poincare.exp0, "v"),
    "poincare.log0": (poincare.log0, "a"),
    "poincare.exp": (poincare.exp, "av"),
    "poincare.log": (poincare.log, "ab"),
    "poincare.dist": (poincare.dist, "ab"),
    "poincare.mobius_add": (poincare.mobius_add, "ab"),
    "poincare.project": (poincare.project, "a"),
    "poincare.project, outside": (lambda a, c: poincare.project(10 * a, c), "a"),
    "poincare.cdist": (poincare.cdist, "ab"),
    "normal_coordinates.cdist": (normal_coordinates.cdist, "va"),
}
OF_SETS = [
    function for name, (function, _) in FUNCTIONS.items() if "cdist" in name or "centroid" in name
]
every_function = pytest.mark.parametrize(
    ("function", "takes"), FUNCTIONS.values(), ids=FUNCTIONS.keys()
)


def arguments(takes, dtype=F64, origin=False):
    """Two points or vectors for each letter, the first at the origin if wanted."""
    generator = torch.Generator().manual_seed(1)
    drawn = {letter: torch.randn(2, 3, generator=generator, dtype=F64) for letter in "xyuvabw"}
    curvature = torch.tensor(-0.6, dtype=F64)
    if origin:
        drawn[takes[0]][0] = 0
    for letter in "ab":
        drawn[letter] *= 0.4
    for letter in "xy":
        drawn[letter] = lorentz.lift(drawn[letter], curvature)
    drawn["u"] = lorentz.log(drawn["x"], drawn["y"], curvature)
    drawn["w"] = drawn["w"][:, :2]
    return [tensor.to(dtype) for tensor in (*(drawn[letter] for letter in takes), curvature)]


def differentiable(tensors):
    return tuple(tensor.clone().requires_grad_() for tensor in tensors)


@every_function
@pytest.mark.parametrize("origin", [False, True])
def test_first_and_second_derivatives(function, takes, origin):
    tensors = differentiable(arguments(takes, origin=origin))
    assert gradcheck(function, tensors)
    assert gradgradcheck(function, tensors)


@every_function
def test_a_curvature_for_each_point(function, takes):
    tensors = arguments(takes)
    tensors[-1] = torch.tensor([-0.6, -1.7], dtype=F64)
    if function in OF_SETS:
        tensors[:-1] = (tensor.expand(2, *tensor.shape) for tensor in tensors[:-1])
        tensors[-2] = tensors[-2].clone() * torch.tensor([1.0, 1.1], dtype=F64)[:, None, None]
    assert gradcheck(function, differentiable(tensors))
    assert gradgradcheck(function, differentiable(tensors))


@every_function
@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_a_graph_of_the_gradient_leaves_its_values_equal_to_the_bit(function, takes, dtype):
    tensors = differentiable(arguments(takes, dtype))
    plain = torch.autograd.grad(function(*tensors).sin().sum(), tensors)
    graph = torch.autograd.grad(function(*tensors).sin().sum(), tensors, create_graph=True)
    for gradient, reference in zip(plain, graph, strict=True):
        assert torch.equal(gradient, reference)


def textbook_dist(x, y, curvature):
    """The distance in torch's own operations, by acosh."""
    times = ((p[..., 1:].square().sum(-1) - 1 / curvature).sqrt() for p in (x, y))
    cosh = -curvature * (math.prod(times) - (x[..., 1:] * y[..., 1:]).sum(-1))
    return cosh.acosh() / (-curvature) ** 0.5


def test_the_gradient_of_the_size_of_a_gradient():
    """A penalty on gradients: it was 0, for the sum's own gradient does not require one."""
    x, y, curvature = arguments("xy")

    def penalty(dist):
        point = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(dist(point, y, curvature).sum(), point, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), point)[0]

    assert penalty(textbook_dist).norm() > 0.1
    torch.testing.assert_close(penalty(lorentz.dist), penalty(textbook_dist))


@pytest.mark.parametrize("radius", [1e-6, 1e-2, 1.0, 5.0])
def test_hessian_of_the_squared_distance_against_mpmath(radius):
    """In one dimension, where x = sinh(r): d² is smooth, also for near points."""
    with mpmath.workdps(60):
        x, y = (mpmath.mpf(float(mpmath.sinh(r))) for r in (radius, 1.1 * radius))
        expected = float(mpmath.diff(lambda p: (mpmath.asinh(p) - mpmath.asinh(y)) ** 2, x, 2))
    space = torch.tensor([float(x)], dtype=F64)
    anchor = lorentz.lift(torch.tensor([float(y)], dtype=F64), -1.0)
    hessian = jacrev(jacrev(lambda p: lorentz.dist(lorentz.lift(p, -1.0), anchor, -1.0) ** 2))(
        space
    )
    assert hessian.item() == pytest.approx(
        expected, rel=1e-13 * math.cosh(radius) ** 2 + 1e-16 / radius
    )


def test_a_point_given_twice():
    x = lorentz.lift(torch.tensor([0.3, -0.2], dtype=F64), -1.0)
    for function in (lorentz.log, poincare.log):
        point = (x if function is lorentz.log else x[1:].clone()).requires_grad_()
        assert gradgradcheck(
            lambda x, function=function: function(x, x.flip(-1), -1.0) + function(x, x, -1.0), point
        )


def test_second_derivatives_of_the_logarithm_of_equal_points():
    """In space coordinates: at equal points they are Christoffel symbols, not 0."""
    curvature, space = -1.3, torch.tensor([0.4, -0.2, 0.7], dtype=F64)
    x = lorentz.lift(space, curvature)
    hessian = jacrev(jacrev(lambda y: lorentz.log(x, lorentz.lift(y, curvature), curvature)[1:]))(
        space
    )
    metric = torch.eye(3, dtype=F64) - torch.outer(space, space) / (-1 / curvature + space @ space)
    # log(y) = y − x + Γ(y − x, y − x)/2, Γ = c·x·metric
    expected = curvature * space[:, None, None] * metric
    torch.testing.assert_close(hessian, expected)


@every_function
def test_torch_func(function, takes):
    tensors = arguments(takes)
    everything = tuple(range(len(tensors)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # torch.func imports what says so
        warnings.filterwarnings("ignore", ".*torch.jit", FutureWarning)
        derivatives = jacrev(function, everything)(*tensors)
        for ours, theirs in zip(
            derivatives, torch.autograd.functional.jacobian(function, tuple(tensors)), strict=True
        ):
            torch.testing.assert_close(ours, theirs)

        def total(*tensors):
            return function(*tensors).sin().sum()

        expected = torch.autograd.functional.hessian(total, tuple(tensors))[0][0]
        torch.testing.assert_close(jacrev(jacrev(total))(*tensors), expected)
        batches = [torch.stack([tensor, 1.1 * tensor, 0.9 * tensor]) for tensor in tensors]
        for number in everything:  # one argument at a time, and all of them
            alone = [batches[i] if i == number else tensors[i] for i in everything]
            derivatives = vmap(function, tuple(0 if i == number else None for i in everything))(
                *alone
            )
            parts = [
                function(*(alone[i][k] if i == number else tensors[i] for i in everything))
                for k in range(3)
            ]
            torch.testing.assert_close(derivatives, torch.stack(parts))
        derivatives = vmap(jacrev(total))(*batches)
        parts = [jacrev(total)(*(batch[k] for batch in batches)) for k in range(3)]
        torch.testing.assert_close(derivatives, torch.stack(parts))


def test_forward_mode_is_refused_in_words():
    x, y, curvature = arguments("xy")
    with pytest.raises(NotImplementedError, match="jvp"):
        hessian(lambda x: lorentz.dist(x, y, curvature).sum())(x)


@pytest.mark.long  # a compilation takes longer than all else here
@every_function
def test_compiled_in_one_graph(function, takes):
    torch._dynamo.reset()
    tensors = differentiable(arguments(takes, torch.float32))
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    value, expected = compiled(*tensors), function(*tensors)
    torch.testing.assert_close(value, expected)
    compiled_gradients, gradients = (
        torch.autograd.grad(tensor.sin().sum(), tensors) for tensor in (value, expected)
    )
    for tensor, reference in zip(compiled_gradients, gradients, strict=True):
        torch.testing.assert_close(tensor, reference)


@every_function
@pytest.mark.parametrize("inside", [False, True])
def test_autocast_changes_nothing(function, takes, inside):
    tensors = differentiable(arguments(takes, torch.float32))
    expected = function(*tensors)
    with torch.autocast("cpu", torch.bfloat16):
        value = function(*tensors)
        assert torch.equal(value, expected)
        if inside and takes != "xw":  # torch's own product of matrices
            gradients = torch.autograd.grad(value.sum(), tensors)
    if not inside:
        gradients = torch.autograd.grad(value.sum(), tensors)
    if not inside or takes != "xw":
        for gradient, reference in zip(
            gradients, torch.autograd.grad(expected.sum(), tensors), strict=True
        ):
            assert torch.equal(gradient, reference)


@pytest.mark.parametrize("kind", HEADS)
def test_heads(kind):
    spec = HeadSpec(kind, 5, 3, start="uniform")
    head = make_head(spec)
    head.load_state_dict(head_start(spec, 0))
    head.double()
    features = torch.randn(
        4, 3, generator=torch.Generator().manual_seed(0), dtype=F64, requires_grad=True
    )

    def logits(features, weight):
        return torch.func.functional_call(head, {"weight": weight}, (features,))

    tensors = features, head.weight.detach().clone().requires_grad_()
    assert gradcheck(logits, tensors)
    assert gradgradcheck(logits, tensors)


def first_of(operation, *tensors):
    return operation(*tensors)[0]


def layer_calls():
    def values(*shape):
        return torch.rand(*shape, generator=torch.Generator().manual_seed(0)).requires_grad_()

    size, bias = torch.tensor(0.8, requires_grad=True), values(4)
    curvature = -size
    adjacency = Constant(torch.eye(3), torch.eye(3))
    return {
        "exp0_factor": partial(exp0_factor, values(3, 1), size),
        "lorentz_linear": partial(
            lorentz_linear, values(3, 4), values(4, 4), bias, bias, curvature
        ),
        "distance_logits": partial(distance_logits, values(3, 4), values(4, 4), bias, curvature),
        "convolve": partial(
            first_of, convolve, values(3, 4), values(3, 1), bias, bias, curvature, None, adjacency
        ),
    }


@pytest.mark.parametrize("name", layer_calls())
def test_the_networks_operations_refuse_what_they_do_not_do(name):
    call = layer_calls()[name]
    value = call()
    with pytest.raises(RuntimeError, match=r"create_graph.*first derivatives"):
        torch.autograd.grad(value.sum(), next(iter(leaves(value))), create_graph=True)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(RuntimeError, match="autocast"):
        call()
    if name == "convolve":
        with pytest.raises(RuntimeError, match="setup_context"):
            vmap(lambda shift: call() + shift)(torch.zeros(2))


def leaves(value):
    """The tensors that a value was made of and that require a gradient."""
    pending = [value.grad_fn]
    while pending:
        node = pending.pop()
        if hasattr(node, "variable"):
            yield node.variable
        pending += [parent for parent, _ in node.next_functions if parent is not None]

"""Normalised averaging against SGD itself, the paper's sums written out, and the average."""

import mpmath
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curvfed.strategies.base.optimizer import gradient_weight
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.methods.fednova import FedNovaServer

EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)


def arrays_of(vector):
    vector = np.asarray(vector, np.float32)
    return {"w": vector[1:].reshape(-1, 1), "b": vector[0]}


def vector_of(arrays):
    return np.append(arrays["b"], arrays["w"].ravel()).astype(np.float64)


@given(st.integers(0, 10**6), st.floats(0, 0.999))
def test_the_weight_is_exact_to_its_bound(steps, momentum):
    with mpmath.workdps(50):
        rho = mpmath.mpf(momentum)
        exact = (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
        assert abs(float(gradient_weight(steps, momentum)) - exact) <= 8 * EPS / (
            1 - momentum
        ) ** 2 * abs(exact)


def new_server(start, momentum=0.9):
    return FedNovaServer(start, config=RunKeys.model_construct(optimizer="sgd", momentum=momentum))


def written_out(start, updates, momentum):
    """Wang et al., Sections 3.1 and 4: a_k entry by entry."""
    norms = [
        sum(sum(momentum**s for s in range(u.steps - i)) for i in range(u.steps)) for u in updates
    ]
    shares = [u.weight / sum(u.weight for u in updates) for u in updates]
    effective = sum(p * norm for p, norm in zip(shares, norms, strict=True))
    directions = [
        (vector_of(u.arrays) - start) / norm for u, norm in zip(updates, norms, strict=True)
    ]
    return start + effective * sum(p * d for p, d in zip(shares, directions, strict=True))


@given(
    st.lists(st.tuples(st.integers(1, 99), st.integers(1, 40)), min_size=1, max_size=6),
    st.sampled_from([0, 0.5, 0.9]),
    st.integers(0, 9),
)
def test_equals_the_sums_written_out(clients, momentum, seed):
    rng = np.random.default_rng(seed)
    start = vector_of(arrays_of(rng.standard_normal(5)))
    updates = [
        Statistics(arrays_of(start + rng.standard_normal(5)), n, {"steps": steps})
        for n, steps in clients
    ]
    server = new_server(arrays_of(start), momentum)
    server.aggregate(dict(enumerate(updates)))
    expected = written_out(start, updates, momentum)
    np.testing.assert_allclose(vector_of(server.sent_to(0)), expected, rtol=2 * EPS32, atol=1e-5)
    weights = np.array(list(server.weights.values()))
    moves = np.array([vector_of(u.arrays) - start for u in updates])
    np.testing.assert_allclose(start + weights @ moves, expected, atol=1e-12 * max(abs(expected)))


def test_who_took_no_step_is_left_out():
    start = arrays_of(np.zeros(3))
    with_idle = {
        0: Statistics(arrays_of([1, 2, 3]), 5, {"steps": 4}),
        1: Statistics(arrays_of([9, 9, 9]), 50, {"steps": 0}),
        2: Statistics(arrays_of([9, 9, 9]), 0, {"steps": 7}),
        3: Statistics(arrays_of([-1, 0, 1]), 15, {"steps": 2}),
    }
    server, without = new_server(start), new_server(start)
    server.aggregate(with_idle)
    without.aggregate({p: with_idle[p] for p in (0, 3)})
    np.testing.assert_array_equal(vector_of(server.sent_to(0)), vector_of(without.sent_to(0)))
    assert server.weights[1] == server.weights[2] == 0
    idle = new_server(arrays_of([1, 2, 3]))
    idle.aggregate({p: with_idle[p] for p in (1, 2)})
    np.testing.assert_array_equal(vector_of(idle.sent_to(0)), [1, 2, 3])


def test_buffers_are_averaged_by_examples_alone():
    start = {"w": np.zeros(2), "n.running_var": np.ones(1)}
    server = new_server(start)
    server.aggregate(
        {
            p: Statistics({"w": np.ones(2), "n.running_var": np.array([v])}, n, {"steps": t})
            for p, (n, v, t) in enumerate([(1, 4.0, 100), (3, 8.0, 20)])
        }
    )
    np.testing.assert_array_equal(server.sent_to(0)["n.running_var"], [7])

"""What an honest client sends is a hull; a forged or merged one leaves its sender out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curvfed.strategies.hull.codec import DecodedHulls, PublicParameters, without_forged
from curvfed.strategies.hull.local import local_hulls

CLIENTS, CLASSES = 4, 3


def public_of(
    epsilon: float, cap: int = 16, curvature: float = -1.0, equal_area: bool = False
) -> PublicParameters:
    return PublicParameters(
        curvature,
        0.999 / np.sqrt(-curvature),
        epsilon,
        num_classes=CLASSES,
        num_clients=CLIENTS,
        cap=cap,
        equal_area=equal_area,
    )


def sent(
    rng: np.random.Generator, public: PublicParameters, spread: float, number: int
) -> DecodedHulls:
    """Hulls of clients with `number` points, at distances of about `spread` from the origin."""
    clients = []
    for _ in range(CLIENTS):
        tangents = rng.normal(0, spread, (number, 2))
        length = np.linalg.norm(tangents, axis=1, keepdims=True)
        points = (
            np.tanh(length / 2) * tangents / np.maximum(length, 1e-300) / np.sqrt(-public.curvature)
        )
        mine = local_hulls(points, rng.integers(0, CLASSES, number), public)
        clients.append([hull.tolist() for hull in mine.hulls])
    return DecodedHulls.of(clients)


@given(
    st.integers(0, 2**32),
    st.sampled_from([0.003, 0.01, 0.1, 1.0]),
    st.sampled_from([1, 2, 3, 6, 8, 128]),
    st.sampled_from([0.01, 0.3, 1.0, 3.0]),
    st.integers(1, 400),
    st.sampled_from([-1.0, -0.2, -7.0]),
    st.booleans(),
)
def test_no_honest_client_is_left_out(seed, epsilon, cap, spread, number, curvature, equal_area):
    """From one point to hundreds, most of them beyond the public radius where the spread is 3."""
    public = public_of(epsilon, cap, curvature, equal_area)
    hulls = sent(np.random.default_rng(seed), public, spread, number)
    remaining, refused = without_forged(hulls, public)
    assert refused == 0
    assert [bins.tolist() for bins in remaining.bins] == [bins.tolist() for bins in hulls.bins]
    assert np.array_equal(remaining.clients, hulls.clients)


def merged(hulls: DecodedHulls, rng: np.random.Generator, public: PublicParameters) -> None:
    """Two clients' hulls come as one, as if both were sent to one slot."""
    hulls.bins[0] = np.union1d(hulls.bins[0], hulls.bins[-1])


def made_up(hulls: DecodedHulls, rng: np.random.Generator, public: PublicParameters) -> None:
    """Points drawn in place of a hull. (Bins at random lie near the rim, most of them corners.)"""
    points = rng.uniform(-0.6, 0.6, (16, 2))
    hulls.bins[0] = np.unique(public.quantizer.encode(points))


@pytest.mark.parametrize("forge", [merged, made_up])
def test_a_forger_is_left_out_with_all_its_hulls(forge):
    public = public_of(0.01)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        hulls = sent(rng, public, 0.8, 60)
        forge(hulls, rng, public)
        remaining, refused = without_forged(hulls, public)
        assert refused == 1
        is_honest = hulls.clients != 0
        assert [bins.tolist() for bins in remaining.bins] == [
            bins.tolist() for bins, keep in zip(hulls.bins, is_honest) if keep
        ]
        assert np.array_equal(remaining.clients, hulls.clients[is_honest] - 1)


def test_no_hulls_at_all():
    remaining, refused = without_forged(DecodedHulls([], np.zeros(0, np.int64)), public_of(0.1))
    assert (remaining.bins, remaining.clients.tolist(), refused) == ([], [], 0)

"""Rows by number and their squared distances: values and gradients against torch's own operations,
and links that are left out of the negatives."""

import pytest
import torch
import torch.nn.functional as F

from curvfed.extensions.links import ranking
from curvfed.extensions.links.models import LinkModelSpec
from curvfed.extensions.links.ranking import KnownLinks, Queries
from curvfed.extensions.links.rows import (
    MANY,
    chosen_rows,
    quotients_by_number,
    row_sums,
    squared_distance_by_number,
)

SIZE = 7


def drawn(num_links, num_tails, dim, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    points = torch.randn((SIZE, dim), generator=generator, dtype=dtype) / 10
    stretches = 1 + torch.rand((SIZE, 1), generator=generator, dtype=dtype)
    heads = torch.randint(0, SIZE, (num_links,), generator=generator)
    tails = torch.randint(0, SIZE, (num_links, num_tails), generator=generator)
    return points.requires_grad_(), stretches.requires_grad_(), heads, tails


def plain_quotients(points, stretches, heads, tails):
    square = plain_apart(points, heads, tails)
    factors = F.embedding(heads, stretches).unsqueeze(1) * F.embedding(tails, stretches)
    return square * factors.squeeze(-1)


def plain_apart(points, heads, tails):
    difference = F.embedding(heads, points).unsqueeze(1) - F.embedding(tails, points)
    return difference.square().sum(-1)


@pytest.mark.parametrize("number", [MANY // 10, 10 * MANY])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_row_sums_are_those_of_torch_to_the_bit(number, dtype):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn((number, 3), generator=generator).to(dtype)
    numbers = torch.randint(0, SIZE, (number,), generator=generator)
    table = torch.zeros((SIZE + 1, 3), dtype=dtype, requires_grad=True)
    F.embedding(numbers, table).backward(rows)
    sums = row_sums(rows, numbers, SIZE + 1)
    assert torch.equal(sums, table.grad)
    assert torch.equal(sums[SIZE], torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize("num_tails", [3, MANY])
def test_values_and_gradients_are_those_of_torch_to_the_bit(num_tails):
    points, stretches, heads, tails = drawn(5, num_tails, 10)
    pairs = [
        (lambda: quotients_by_number(points, stretches, heads, tails), plain_quotients),
        (lambda: squared_distance_by_number(points, heads, tails), plain_apart),
        (
            lambda: chosen_rows(points, tails),
            lambda points, heads, tails: F.embedding(tails, points),
        ),
    ]
    for fast, plain in pairs:
        leaves = (points, stretches) if plain is plain_quotients else (points,)
        value = fast()
        expected = plain(*leaves, heads, tails)
        assert torch.equal(value, expected)
        weights = torch.randn_like(value)
        gradients = torch.autograd.grad(value, leaves, weights)
        expected_gradients = torch.autograd.grad(expected, leaves, weights)
        for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
            assert torch.equal(gradient, expected_gradient)


def test_second_derivatives():
    points, stretches, heads, tails = drawn(3, 2, 2, torch.float64)

    def value(points, stretches):
        return quotients_by_number(points, stretches, heads, tails)

    assert torch.autograd.gradgradcheck(value, (points, stretches))
    assert torch.autograd.gradgradcheck(
        lambda p: squared_distance_by_number(p, heads, tails), (points,)
    )
    assert torch.autograd.gradgradcheck(lambda p: chosen_rows(p, tails).square(), (points,))


@pytest.mark.parametrize("reciprocal", [False, True])
def test_negatives_are_left_out_alike_by_table_and_by_search(reciprocal, monkeypatch):
    triples = torch.tensor([[0, 0, 1], [0, 1, 2], [3, 0, 3], [2, 1, 0]])
    heads = torch.arange(4).repeat_interleave(2 + 2 * reciprocal)
    relations = torch.arange(2 + 2 * reciprocal).repeat(4)
    tails = torch.arange(4).expand(len(heads), 4)
    known = KnownLinks(triples, 4, 2, reciprocal)
    by_table = known.leave_out(heads, relations, tails)
    monkeypatch.setattr(ranking, "LOOKED_UP", 0)
    by_search = KnownLinks(triples, 4, 2, reciprocal).leave_out(heads, relations, tails)
    links = {tuple(link) for link in known.directed(triples).tolist()}
    expected = [
        [head == tail or (head, relation, tail) in links for tail in range(4)]
        for head, relation in zip(heads.tolist(), relations.tolist(), strict=True)
    ]
    assert by_table.tolist() == expected
    assert by_search.tolist() == expected


def test_ranks_are_in_the_order_of_the_links_whatever_their_heads():
    generator = torch.Generator().manual_seed(2)
    model = LinkModelSpec("normal", 9, 1, 2).build(0)
    triples = torch.randint(0, 9, (20, 3), generator=generator)
    triples[:, 1] = 0
    triples = triples[triples[:, 0] != triples[:, 2]]
    known = KnownLinks(triples, 9, 1)
    ranks, shares = Queries(triples, torch.arange(9), known).ranks(model)
    table = model.table()
    for number, (head, _, tail) in enumerate(triples.tolist()):
        tails = {int(link[2]) for link in triples if link[0] == head}
        wrong = [entity for entity in range(9) if entity not in tails and entity != head]
        scores = model.compare(table[[head]][:, None], torch.tensor([0]), table[None])[0]
        higher = sum(bool(scores[entity] > scores[tail]) for entity in wrong)
        assert ranks[number] == 1 + higher
        assert shares[number] == 1 - higher / len(wrong)

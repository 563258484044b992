"""A run from Python draws from a generator of its own: what other threads draw changes nothing in
it, and they find torch's generator as they left it."""

import concurrent.futures

import pytest
import torch
from app_runs import QUICK, run
from safetensors.numpy import load_file

import curvfed
from curvfed.deployments.python_api import model_name
from curvfed.strategies.base import optimizer
from curvfed.tasks.draws import (
    Dropout,
    generator,
    normal_like,
    own_draws,
    seed_draws,
    seeded,
    share_draws,
)

CASES = {
    "nodes": {"method": "flatland", **QUICK["nodes"]},
    "images": {"method": "hyperfed", **QUICK["images"], "hyperfed__mixup": 0.5},
    "fedsage+": {"method": "fedsage+", **QUICK["nodes"]},
    "points": {"method": "fedavg", **QUICK["points"]},
}

if "links" in QUICK:
    CASES["links"] = {"method": "links", **QUICK["links"]}

DISTURBED = (
    (optimizer.Adam, "step"),
    (optimizer.SGD, "step"),
    (torch.nn.Module, "__call__"),
    (torch.nn.Linear, "reset_parameters"),
)


def as_keywords(settings):
    """The settings of `run` for `curvfed.simulate`, whose tables are dicts."""
    keywords = {name: value for name, value in settings.items() if "__" not in name}
    for name, value in settings.items():
        table, _, key = name.partition("__")
        if key:
            keywords.setdefault(table, {})[key] = value
    return keywords


@pytest.mark.parametrize("case", CASES)
def test_draws_of_another_thread_change_nothing(case, own_home, tmp_path, monkeypatch):
    settings = CASES[case] | {"num_rounds": 2}
    alone = run(tmp_path, "alone", clients=2, **settings).path
    drawn = 0
    with concurrent.futures.ThreadPoolExecutor(1) as thread:

        def disturbing(function):
            def disturbed(*arguments, **keywords):
                nonlocal drawn
                drawn += 1
                thread.submit(torch.rand, 3).result()
                return function(*arguments, **keywords)

            return disturbed

        for owner, name in DISTURBED:
            monkeypatch.setattr(owner, name, disturbing(getattr(owner, name)))
        torch.manual_seed(5)
        keywords = {"num_supernodes": 2, "results_dir": tmp_path, "quiet": True, "report": False}
        keywords["embedding_dim"] = 8
        made = curvfed.simulate(**as_keywords(settings), **keywords)
    monkeypatch.undo()
    after = torch.rand(3)
    assert drawn
    torch.manual_seed(5)
    for _ in range(drawn):
        torch.rand(3)
    assert torch.equal(after, torch.rand(3))
    arrays = [load_file(path / "model.safetensors") for path in (alone, made.path)]
    assert all((arrays[0][name] == arrays[1][name]).all() for name in arrays[0])


class Dropping(torch.nn.Module):
    """A network of the caller's, whose dropout takes no generator."""

    def __init__(self, shape, classes):
        super().__init__()
        self.body = torch.nn.Linear(64, classes)

    def forward(self, images):
        return self.body(torch.nn.functional.dropout(images.flatten(1), 0.5, self.training))


def test_a_network_of_the_callers_draws_from_torchs_generator(own_home, tmp_path):
    settings = QUICK["images"] | {
        "method": "fedavg",
        "num_rounds": 2,
        "model": model_name(Dropping),
    }
    alone = run(tmp_path, "alone", clients=2, **settings).path
    before = torch.get_rng_state()
    keywords = {"num_supernodes": 2, "results_dir": tmp_path, "quiet": True, "report": False}
    made = curvfed.simulate(**as_keywords(settings), **keywords, embedding_dim=8)
    assert torch.equal(before, torch.get_rng_state())
    arrays = [load_file(path / "model.safetensors") for path in (alone, made.path)]
    assert all((arrays[0][name] == arrays[1][name]).all() for name in arrays[0])


def test_the_draws_are_those_of_torch_after_the_same_seed():
    values = torch.randn(50, 7)
    layers = torch.nn.Linear(7, 3), Dropout(0.3)
    torch.manual_seed(3)
    expected = torch.nn.Dropout(0.3)(values), torch.randn_like(values), torch.randperm(9)
    with own_draws():
        seed_draws(3)
        drawn = layers[1](values), normal_like(values), torch.randperm(9, generator=generator())
    assert all(map(torch.equal, expected, drawn))


@pytest.mark.parametrize("shares", [False, True])
def test_layers_begin_as_torchs_after_the_same_seed(shares):
    def layers():
        first = torch.nn.Conv2d(3, 4, 3)
        torch.nn.init.xavier_uniform_(first.weight, 2.0)
        second = torch.nn.Linear(7, 3)
        torch.nn.init.trunc_normal_(second.bias)
        return [*first.parameters(), *second.parameters(), torch.randn(3)]

    torch.manual_seed(3)
    expected = layers()
    torch.manual_seed(4)
    before = torch.get_rng_state()
    with own_draws(), seeded(3, shares):
        assert all(map(torch.equal, expected, layers()))
    assert torch.equal(before, torch.get_rng_state())


def test_what_takes_no_generator_draws_from_torchs_and_restores_it():
    before = torch.get_rng_state()
    with own_draws():
        share_draws()
        assert generator() is None
        seed_draws(1)
        torch.rand(1)
    assert torch.equal(before, torch.get_rng_state())

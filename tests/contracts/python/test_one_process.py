"""Runs in one process: threads, torch's settings, notebooks' outputs, forks."""

import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from one_client import a_client

import curvfed
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.stored_run import turn
from curvfed.strategies.base.learner import run_epochs
from curvfed.strategies.config.device import own_settings


def simulate(folder: Path, seed: int = 0, quiet: bool = True, **keys: Any) -> curvfed.Run:
    return curvfed.simulate(
        "fedavg",
        num_supernodes=2,
        num_rounds=2,
        embedding_dim=8,
        seed=seed,
        quiet=quiet,
        report=False,
        results_dir=folder,
        **keys,
    )


def figures(run: curvfed.Run) -> list[float]:
    return [run.summary["personal_accuracy_mean"], *run.clients["loss"]]


def test_runs_in_threads_have_the_figures_of_runs_one_after_the_other(tmp_path, capsys):
    single = [figures(simulate(tmp_path, seed)) for seed in range(3)]
    capsys.readouterr()
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda seed: figures(simulate(tmp_path, seed)), range(3))) == single
    assert "round 1/" not in capsys.readouterr().out  # nothing of its progress


def test_a_quiet_run_in_a_thread_silences_no_other(tmp_path, capsys):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda quiet: simulate(tmp_path, quiet=quiet), [True, False, True]))
    assert capsys.readouterr().out.count("done: ") == 1


def test_a_run_within_a_run_of_the_thread_is_refused(tmp_path):
    run = simulate(tmp_path)
    with turn("a run"):
        with pytest.raises(UsageError, match="simulate is called by a run"):
            simulate(tmp_path)
        with pytest.raises(UsageError, match="adapt"):
            run.adapt("trees", tmp_path / "b")
        assert len(run.predict("trees", client=0))
    assert simulate(tmp_path).summary["status"] == "completed"


def test_a_forked_process_does_not_wait_for_a_run_of_its_parent() -> None:
    begun, end = threading.Event(), threading.Event()

    def hold() -> None:
        with turn("a run"):
            begun.set()
            end.wait(600)

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait(600)
    if not (child := os.fork()):
        with turn("another"):
            os._exit(7)
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def strict() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


SETTINGS = {
    "dtype": lambda: default_dtype(torch.float64),
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "device": lambda: torch.device("meta"),
    "deterministic": strict,
    "numpy": lambda: np.errstate(all="raise"),
}


def test_settings_of_the_calling_program_change_no_figure(tmp_path):
    expected = figures(simulate(tmp_path))
    for name, setting in SETTINGS.items():
        with setting():
            before = state()
            run = simulate(tmp_path)
            assert state() == before, name
        assert figures(run) == expected, name


def state() -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_num_threads(),
        torch.is_autocast_enabled("cpu"),
        torch.get_default_device(),
        torch.are_deterministic_algorithms_enabled(),
        np.geterr(),
        torch.get_float32_matmul_precision(),
        torch.get_rng_state().tolist(),
    )


@pytest.mark.parametrize(
    "place", [torch.backends, torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
)
def test_precision_that_was_set_by_the_newer_names_of_torch(place):
    try:
        place.fp32_precision = "tf32"
        with own_settings():
            assert torch.get_float32_matmul_precision() == "highest"
            assert (
                torch.backends.cuda.matmul.fp32_precision
                == torch.backends.mkldnn.matmul.fp32_precision
                == "ieee"
            )
        assert place.fp32_precision == "tf32"
    finally:
        torch.backends.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("block", [own_settings, lambda: torch.autocast("cpu", enabled=False)])
def test_a_step_in_mixed_precision_uses_the_weights_of_the_step_before(block):
    settings = {"method": "hyperfed", "dataset": "digits", "mixed-precision": True, "device": "cpu"}
    first, second = (a_client(settings)[0].learner for _ in range(2))
    torch.manual_seed(0)
    expected = run_epochs(first, 3)
    torch.manual_seed(0)
    with block():
        assert run_epochs(second, 3) == expected

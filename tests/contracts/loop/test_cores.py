"""The cores that a simulation takes: by affinity, the quotas of control groups, and the load."""

import math
import os
from pathlib import Path

import pytest

from curvfed.deployments import cores
from curvfed.deployments.cores import Cores, read_cores

IDLE = "0.00 0.01 0.05 1/800 4242\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The cores of a machine with 8, of which this process may use `affine`."""
    monkeypatch.setattr(cores.os, "cpu_count", lambda: 8)

    def machine(
        affine: int = 8, load: str = IDLE, own: str = "0::/\n", files: dict[str, str] | None = None
    ) -> Cores:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(affine)), raising=False)
        for name, text in (files or {}).items():
            path = tmp_path / "groups" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "own").write_text(own)
        (tmp_path / "load").write_text(load)
        return read_cores(tmp_path / "groups", tmp_path / "own", tmp_path / "load")

    return machine


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {}, math.inf),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/\n", {"cpu.max": "300000 100000\n"}, 3),
        # The smallest limit on the way up holds.
        ("0::/job/step\n", {"job/step/cpu.max": "max 100000", "job/cpu.max": "200000 100000"}, 2),
        # A container that sees its own group as the top.
        ("0::/../../host/name\n", {"cpu.max": "2 1"}, 2),
        # Version 1, also beside version 2.
        (
            "4:cpu,cpuacct:/job\n1:name=systemd:/job\n0::/\n",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "150000\n",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            1.5,
        ),
        (
            "4:cpu:/docker/0123\n3:cpuset:/docker/0123\n",
            {"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            4,
        ),
        (
            "4:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            math.inf,
        ),
    ],
)
def test_quotas(machine, own, files, quota):
    result = machine(own=own, files=files)
    assert result.quota == quota
    assert result.free == result.usable == min(8, max(1, int(min(quota, 8))))


@pytest.mark.parametrize(
    ("affine", "load", "free"),
    [
        (8, IDLE, 8),
        (8, "2.60 0.9 0.9 4/800 4242", 5),
        (8, "19.7 0.9 0.9 21/800 4242", 1),
        # A run of four workers has just ended, and is still in the average.
        (8, "3.90 0.9 0.9 1/800 4242", 8),
        # A short burst is not in the average yet.
        (8, "0.10 0.1 0.1 9/800 4242", 8),
        # Others work elsewhere on the machine.
        (2, "7.00 7.0 7.0 8/800 4242", 1),
        (8, "not a load", 8),
    ],
)
def test_other_programs(machine, affine, load, free):
    result = machine(affine, load)
    assert result.free == free
    assert result.usable == affine


def test_what_decides_is_said(machine):
    assert str(machine()) == "8 of 8 cores are free (load 0.0)"
    busy = machine(8, "19.7 0.9 0.9 21/800 4242")
    assert (busy.free, str(busy)) == (1, "0 of 8 cores are free (load 19.7)")
    result = machine(4, "6.9 7 7 8/800 1", files={"cpu.max": "300000 100000"})
    assert str(result) == "1 of 8 cores is free (affinity 4, quota 3, load 6.9)"

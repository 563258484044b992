"""The page of what only a GPU shows, and the command that makes it, without a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from paused_clock import popen_out_of_time

from benchmarks import gpu

ROOT = Path(__file__).parents[3]
MACHINE = {
    "processor": "A processor",
    "cores": 16,
    "memory_gb": 128,
    "system": "Linux",
    "versions": {"torch": "2.0"},
    "gpu": "A device",
}


def found(name, rows=(), error=""):
    return {"name": name, "rows": list(rows), "error": error, "seconds": 7}


def test_the_page_has_every_part_the_device_and_why_one_failed():
    tests = found("tests", [["passed", "3"], ["failed", "test_a[b|c]\nmore"]])
    parts = [tests, found("waits", error="RuntimeError: no such kernel")]
    text = gpu.page({"measured": "2026-01-02T03:04:05", "machine": MACHINE, "parts": parts})
    assert (
        "Measured on 2026-01-02: A device, A processor, 16 cores, 128 GB, Linux; torch 2.0." in text
    )
    assert (
        "## Tests of what only a GPU shows\n\n| outcome | tests |\n| --- | --- |\n| passed | 3 |\n"
        in text
    )
    assert "| failed | test_a[b/c] |" in text
    assert text.endswith(
        "waits for the GPU\n\n**Failed after 7 s:** RuntimeError: no such kernel\n\n"
    )
    assert "no GPU was available" not in text


def test_the_page_of_the_repository_says_whether_it_was_measured():
    text = (ROOT / "docs" / "measured" / "gpu.md").read_text()
    assert text == gpu.page(None) or "\nMeasured on 20" in text


def test_without_a_gpu_the_status_is_2_and_one_sentence_says_why(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert gpu.main(["--page", str(tmp_path / "gpu.md")]) == 2
    assert capsys.readouterr().err.startswith(
        "error: this needs a GPU; this machine has only cpu: PyTorch "
    )
    assert not (tmp_path / "gpu.md").exists()


def test_parts_that_fail_are_told_and_the_others_go_on(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: "A device")
    monkeypatch.setattr(
        gpu,
        "measured",
        lambda name, data: found(name, error="ValueError: none" * (name == "steps")),
    )
    page = tmp_path / "gpu.md"
    assert gpu.main(["--page", str(page)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "[1/5] tests: 0 rows, 7 s",
        "[2/5] steps: 0 rows, 7 s, failed: ValueError: none",
    ]
    assert len(lines) == len(gpu.PARTS)
    assert page.read_text().count("## ") == len(gpu.PARTS)
    assert gpu.main(["--page", str(page), "--only", "runs", "waits"]) == 0


@pytest.mark.parametrize(
    ("program", "rows", "error"),
    [
        ("print('[\"a\"]'); print('other'); raise ValueError('so')", [["a"]], "ValueError: so"),
        (
            (
                "import sys, time; print('[\"a\"]', flush=True); open(sys.argv[1], 'w');"
                " time.sleep(600)"
            ),
            [["a"]],
            "not done after 100 s",
        ),
        ("print('[\"a\"]'); print('[\"b\"]')", [["a"], ["b"]], ""),
    ],
)
def test_rows_of_a_part_are_kept_and_its_end_is_told(program, rows, error, tmp_path, monkeypatch):
    shown = tmp_path / "shown"
    popen = (
        popen_out_of_time(100, shown.exists) if error.startswith("not done") else subprocess.Popen
    )
    start = [sys.executable, "-c", program, str(shown)]
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: popen(start, **how))
    monkeypatch.setitem(gpu.PARTS, "waits", gpu.PARTS["waits"]._replace(seconds=100))
    told = gpu.measured("waits", None)
    assert (told["rows"], told["error"]) == (rows, error)


def test_all_parts_are_done_in_nine_minutes():
    assert sum(part.seconds for part in gpu.PARTS.values()) <= 9 * 60 - 10

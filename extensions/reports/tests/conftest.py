"""Whole runs of which reports are made: each is made once, and tests change copies of it."""

import shutil
from pathlib import Path

import pytest
from app_runs import QUICK, run
from hull_nodes import hull_run

from curvfed.server_app.report.run_page import write_report


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run directories by kind. Read only."""
    root = tmp_path_factory.mktemp("finished")
    runs = {
        "graphs": run(root, "graphs", method="flatland", num_rounds=3),
        "images": run(root, "images", method="spherefed", **QUICK["images"]),
        "hulls": hull_run(root, "hulls"),
    }
    return {kind: result.path for kind, result in runs.items()}


@pytest.fixture(scope="session")
def pages(finished: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of each, made in a copy. Read only."""
    root = tmp_path_factory.mktemp("pages")
    return {
        kind: write_report(shutil.copytree(path, root / kind)) for kind, path in finished.items()
    }


@pytest.fixture
def copies(finished: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Copies of the run directories, to be changed."""
    return {kind: Path(shutil.copytree(path, tmp_path / kind)) for kind, path in finished.items()}

"""The page of discriminant analysis, which has a disc without hulls."""

from pathlib import Path

import pytest
from app_runs import run
from report_page import Page, titles

from curvfed.server_app.report import write_report


@pytest.mark.parametrize("kind", ["lda", "qda"])
def test_the_disc_of_moments_shows_decisions_points_and_mistakes(kind: str, tmp_path: Path) -> None:
    settings = {
        "dataset": "uniform",
        "points__num": 400,
        "points__margin": 0.0,
        "discriminant__kind": kind,
    }
    found = run(tmp_path, clients=3, method="discriminant", **settings)
    page = Page(write_report(found.path))
    assert titles(page)[0] == "Poincaré disc of 0 hulls"
    assert "The background is what the classifier decides." in page.text
    assert "Filled are the hulls" not in page.text

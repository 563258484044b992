"""The page of discriminant analysis, which has a disc without hulls."""

from pathlib import Path

import pytest
from app_runs import run

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
    page = write_report(found.path).read_text()
    right = found.summary["global_accuracy"]
    wrong, tested = round(60 * (1 - right)), 60
    assert 'aria-label="Poincaré disc, coloured by class, with 340 training points' in page
    assert "The background is what the classifier decides." in page
    assert (
        not wrong
        or f"Crosses are the test points that are predicted wrongly, {wrong} of {tested}." in page
    )
    assert "<h2>Classes</h2>" in page
    assert "<h2>Sum</h2>" in page
    assert "vertices of hulls" not in page
    assert "Filled are the hulls" not in page

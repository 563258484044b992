"""The page of discriminant analysis, which has a disc without hulls, and links from a run to pages
about many."""

from pathlib import Path

import pytest
from app_runs import run

from curvfed.server_app.report.page import link, write_report


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


def test_the_page_of_a_run_links_once_to_each_page_that_it_is_part_of(tmp_path: Path) -> None:
    place = run(tmp_path / "runs", method="local", num_rounds=1, embedding_dim=8).path
    alone = write_report(place).read_text()
    study = tmp_path / "a study" / "trees.html"
    link(place, study, "Who gains <on> trees")  # which has no page yet
    link(place, study, "Who gains <on> trees")
    link(place, tmp_path / "other.html", "Another")
    page = (place / "report.html").read_text()
    assert (
        page.count('Part of <a href="../../a%20study/trees.html">Who gains &lt;on&gt; trees</a>.')
        == 1
    )
    assert page.count('Part of <a href="../../other.html">Another</a>.') == 1
    assert len(page) > len(alone)
    link(tmp_path / "no run", study, "nothing")
    assert not (tmp_path / "no run").exists()

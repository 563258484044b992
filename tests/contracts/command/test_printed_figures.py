"""The printed table of a run has the figures that say something about it."""

import re

import pytest
from app_runs import QUICK, run
from hull_nodes import hull_run

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.deployments.run_results import COMPLETED, ExpectedSummary
from curvfed.deployments.terminal import summary_table
from curvfed.strategies.base.figures import FIGURES, find


def rows_of(summary):
    """The printed rows, by their words."""
    columns = summary_table(summary).columns
    words = columns[0].cells
    return dict(zip(words, columns[1].cells, strict=True))


def test_a_one_shot_run_has_no_rounds_and_no_counts_of_faults_that_are_zero(tmp_path):
    summary = hull_run(tmp_path).summary
    rows = rows_of(summary)
    assert {"global accuracy", "sent by a client", "received by a client", "hulls"} <= rows.keys()
    assert not [words for words in rows if re.search("round|training|dropped|refused", words)]
    # The server has the test points; no client was left out of a mean.
    assert summary["metrics"]["clients_left_out"] == summary["num_clients"]
    assert find("clients_left_out").words not in rows


def test_what_went_wrong_is_printed(tmp_path):
    summary = hull_run(tmp_path).summary
    summary["metrics"] |= {"dropouts": 1, "replies_dropped": 2}
    rows = rows_of(summary)
    assert rows["clients that dropped out"] == "1"
    assert rows["dropped replies"] == "2"


def test_a_run_of_rounds_counts_the_clients_that_a_mean_leaves_out(tmp_path):
    summary = run(tmp_path, method="fedavg", **QUICK["images"]).summary
    words = find("clients_left_out").words
    assert words not in rows_of(summary)
    assert "sent by a client per round" in rows_of(summary)
    summary["metrics"]["clients_left_out"] = 3
    assert rows_of(summary)[words] == "3"


@pytest.mark.parametrize(
    ("extra", "words"),
    [([], "last round, fine-tuned"), (["fine-tune-epochs=0"], "last round")],
)
def test_the_last_scores_of_fine_tuned_models_say_so(extra, words, tmp_path, own_home, capsys):
    config = {"results-dir": str(tmp_path), "run-name": "made"}
    expected = ExpectedSummary(config)
    settings = ["method=fedavg", "dataset=digits", "num-supernodes=2", "num-rounds=1", *extra]
    settings += [f"{key}={value}" for key, value in config.items()]
    assert main(["simulate", *settings]) == 0
    assert re.search(f"┃ {words} +┃", capsys.readouterr().out)
    assert expected.report(COMPLETED, "")  # by Flower
    assert re.search(f"┃ {words} +┃", capsys.readouterr().out)
    assert f"<th>{words}</th>" in curvfed.load(tmp_path / "made")._repr_html_()


def test_figures_of_scores_are_figures():
    named = {figure.left_out_of for figure in FIGURES.values()} - {""}
    assert named <= FIGURES.keys()

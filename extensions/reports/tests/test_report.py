"""The report: right figures, complete in itself, safe, made of whatever files there are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common.config import parse_config_args
from report_page import HOSTILE, Page, check_stands_alone, titles
from tiers import only

from curvfed.deployments.arguments import read_pairs
from curvfed.extensions.reports.run_tables import headline, phase_table
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.summary import failed_summary
from curvfed.server_app.report import charts
from curvfed.server_app.report.parts import parts_of
from curvfed.server_app.report.run_page import write_report
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults
from curvfed.tasks import plugins

FILES = ("summary.json", "config.toml", "clients.json", "rounds.csv", "clients.csv")


def report(folder: Path) -> Page:
    return Page(write_report(folder))


def change_json(path: Path, change: Callable[[Any], None]) -> None:
    """Change what a JSON file holds."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("kind", ["graphs", "images", "hulls"])
def test_a_page_stands_alone_and_has_pictures(finished, pages, kind):
    assert not (finished[kind] / "report.html").exists()  # `report = false`
    page = Page(pages[kind])
    check_stands_alone(page)
    assert page.tags.count("figcaption") == page.tags.count("svg") == len(titles(page)) >= 2


@pytest.mark.parametrize("is_masked", [False, True])
def test_a_page_of_hulls_says_which_replies_were_masked(copies, is_masked):
    """It named a key that the run did not have."""
    run = RunFiles(copies["hulls"])
    vars(run)["config"] = run.config | {"secure-sum": is_masked}
    legend = phase_table(run).legend
    assert ("(secure-sum = true)" in legend) == is_masked
    is_open = "saw the replies of phase hulls only as their sum over the clients, but each client's"
    assert (is_open in legend) != is_masked


@pytest.mark.parametrize("absent", only(FILES, {"summary.json", "clients.csv"}.__contains__))
def test_any_file_may_be_absent(copies, absent):
    (copies["graphs"] / absent).unlink()
    assert absent in report(copies["graphs"]).text


def test_a_torn_last_line_is_left_out(copies, pages):
    for name in ("rounds.csv", "clients.csv"):
        with (copies["graphs"] / name).open("a") as file:
            file.write("4,train,0")
    assert report(copies["graphs"]).rows == Page(pages["graphs"]).rows


def test_equal_files_give_equal_bytes_whatever_the_users_settings(copies, pages):
    import matplotlib

    with matplotlib.rc_context({"axes.labelsize": 30, "xtick.minor.visible": True}):
        again = write_report(copies["graphs"])
        assert again.read_bytes() == pages["graphs"].read_bytes()
        assert matplotlib.rcParams["axes.labelsize"] == 30


def test_the_commands_ask_for_the_same_run(copies, tmp_path):
    settings = {
        "method": "fedprox",
        "fedprox.mu": 0.5,
        "seed": 4,
        "learning-rate": 1e-05,
        "share-statistics": True,
        "data-dir": '/my data/a "quoted" 100%',
    }
    requested = settings | {"dataset": "trees", "results-dir": str(tmp_path)}
    directory = RunDirectory.open(parse({"run-name": "asked"} | requested))
    clients = json.loads((copies["graphs"] / "clients.json").read_text())
    directory.write_clients(clients | {"refused": {"node 9": "late"}})
    alone, ray, flower = report(directory.path).commands
    assert alone[:2] == ["curvfed", "simulate"]
    assert ray[:2] == ["curvfed", "run"]
    assert alone[2:] == ray[2:]
    assert parse_config_args([flower[flower.index("--run-config") + 1]]) == requested
    federation = parse_config_args([flower[flower.index("--federation-config") + 1]])
    assert federation["num-supernodes"] == 3
    read = read_pairs(alone[2:], defaults() | {"num-supernodes": 1})
    # a number, for its default is a text
    assert read == requested | {"num-supernodes": 3, "learning-rate": "1e-05"}


def test_gaps_hold_what_was_measured_last() -> None:
    rng = np.random.default_rng(1)
    values = np.where(rng.random((12, 7)) < 0.5, np.nan, rng.random((12, 7)))
    expected = np.full_like(values, np.nan)
    for client in range(7):
        last = np.nan
        for number in range(12):
            last = last if np.isnan(values[number, client]) else values[number, client]
            expected[number, client] = last
    np.testing.assert_array_equal(charts.carried_forward(values), expected)


def test_figures_are_those_of_the_summary(finished, pages):
    summary = json.loads((finished["graphs"] / "summary.json").read_text())
    page = Page(pages["graphs"])
    shares = [
        f"{100 * scores['personal_accuracy_mean']:.1f}% ± {100 * scores['personal_accuracy_std']:.1f}%,"
        f" {summary['metrics']['personal_examples']} test examples"
        for scores in (summary, summary["best_validation"])
    ]
    assert page.rows["personal accuracy"] == shares


def test_the_mean_of_a_metric_is_over_the_clients_that_have_it(copies):
    folder = copies["graphs"]
    figures = {"roc_auc": 0.8, "roc_auc_std": 0.1, "roc_auc_clients_left_out": 1}

    def set_metric(content: dict[str, Any]) -> None:
        for client in content["clients"]:
            client["metric"] = "roc_auc"

    change_json(folder / "clients.json", set_metric)
    change_json(folder / "summary.json", lambda summary: summary["metrics"].update(figures))
    ((words,), cells) = headline(RunFiles(folder)).rows[0]
    assert words.startswith("ROC-AUC, mean of 2 clients")
    # 0.8 ± 12.706 · 0.1/√(2 − 1), within the shares that there are.
    assert [cell.text for cell in cells] == ["80.0%", "0.0% – 100.0%"]
    change_json(
        folder / "summary.json",
        lambda summary: summary["metrics"].update(roc_auc_clients_left_out=0, roc_auc_std=0.01),
    )
    ((words,), cells) = headline(RunFiles(folder)).rows[0]
    assert words.startswith("ROC-AUC, mean of 3 clients")
    # 4.303 · 0.01/√2
    assert [cell.text for cell in cells] == ["80.0%", "77.0% – 83.0%"]


def test_each_score_stands_above_its_own_trivial_answer(copies):
    folder = copies["images"]
    metrics = {"global_majority_accuracy": 0.125, "majority_accuracy": 0.375}
    change_json(folder / "summary.json", lambda summary: summary["metrics"].update(metrics))
    rows = headline(RunFiles(folder)).rows
    texts = [(words, cells[0].text) for (words,), cells in rows]
    assert [words.partition(",")[0] for words, _ in texts[::2]] == [
        "global accuracy",
        "personal accuracy",
    ]
    assert texts[1::2] == [
        ("accuracy of the most frequent class, global", "12.5%"),
        ("accuracy of the majority class", "37.5%"),
    ]


def test_what_other_machines_say_stays_text(copies):
    folder = copies["graphs"]

    def rename(content: dict[str, Any]) -> None:
        names = [HOSTILE, "\x00\ud800", "樹", "$x$"]
        for client in content["clients"]:
            client["class_names"] = names
            client["statistics"]["class_counts"] = [3] * len(names)
        content["facts"]["class_names"] = names
        content["refused"] = {"node \ud800": HOSTILE}

    change_json(folder / "clients.json", rename)
    change_json(
        folder / "summary.json",
        lambda summary: summary.update(
            failed_summary(HOSTILE, "", parse({})) | {"dataset": HOSTILE}
        ),
    )
    page = report(folder)
    check_stands_alone(page)
    assert HOSTILE in page.alerts[0]
    assert page.rows["start"] == ["node ?", HOSTILE]


def test_a_run_that_never_began(tmp_path):
    config = parse({"run-name": "never", "results-dir": str(tmp_path)})
    directory = RunDirectory.open(config)
    directory.write_summary(failed_summary("no data in /there", "", config))
    page = report(directory.path)
    assert "no data in /there" in page.alerts[0]
    assert "svg" not in page.tags


def test_nonsense_and_silence_of_a_client_cost_its_own_figures_alone(copies):
    def spoil(content: dict[str, Any]) -> None:
        content["clients"][0]["statistics"]["forman"] = "steep"

    def hide(content: dict[str, Any]) -> None:
        for client in content["clients"]:
            client["statistics"] = {}

    change_json(copies["graphs"] / "clients.json", spoil)
    rows = report(copies["graphs"]).rows
    assert "–" in rows["0"]
    assert "–" not in rows["1"]
    change_json(copies["graphs"] / "clients.json", hide)
    assert not any("Class" in title for title in titles(report(copies["graphs"])))


@pytest.mark.parametrize(("kind", "kept"), [("images", 0), ("hulls", 100)])
def test_an_unfit_archive_is_left_out(copies, kind, kept):
    (archive,) = copies[kind].glob("*.npz")
    archive.write_bytes(archive.read_bytes()[:kept])
    assert archive.name in report(copies[kind]).text


def test_a_broken_part_of_another_package_costs_only_itself(copies, monkeypatch, caplog):
    intact = parts_of(RunFiles(copies["graphs"]))
    monkeypatch.setitem(plugins.of_extensions("report"), "odd", "not_there:add")
    parts = parts_of(RunFiles(copies["graphs"]))
    assert [picture.__name__ for picture in parts.pictures] == [
        picture.__name__ for picture in intact.pictures
    ]
    assert "the report lacks the parts of odd" in caplog.text

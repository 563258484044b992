"""The report: right figures, complete in itself, safe with what other machines say, made of
whatever files there are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_runs import run
from flwr.common.config import parse_config_args
from hull_run import make_hull_run
from image_run import make_image_run
from report_page import HOSTILE, Page, check_stands_alone, titles
from scipy import stats
from tiers import only

from curvfed.deployments.arguments import read_pairs
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import failed_summary
from curvfed.server_app.report import charts, run_tables, write_report
from curvfed.server_app.report.run_tables import MOST_DROPPED
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults

FILES = ("summary.json", "config.toml", "clients.json", "rounds.csv", "clients.csv")


def summary(metric: str = "accuracy", **changes: Any) -> dict[str, Any]:
    """The summary of three rounds of three clients."""
    best = {
        "round": 2,
        "personal_accuracy_mean": 0.70125,
        "personal_accuracy_std": 0.03,
        "metrics": {"personal_accuracy_before": 0.65, "validation": 0.66, "clients_left_out": 1},
    }
    told = failed_summary("", "", parse({})) | {
        "status": "completed",
        "num_clients": 3,
        "rounds": 3,
        "personal_accuracy_mean": 0.68756,
        "personal_accuracy_std": 0.04321,
        "metrics": {
            "personal_accuracy_before": 0.6,
            "personal_accuracy_pooled": 0.71,
            "clients_left_out": 1,
            "validation": 0.62,
            "majority_accuracy": 0.4111,
            "made_up_figure": 12.5,
        },
        "best_validation": best,
        "bytes_up": 1500.0,
        "bytes_down": 2_000_000.0,
        "seconds": 83.2,
    }
    if metric == "roc_auc":
        told["metrics"] |= {"roc_auc": 0.7321, "roc_auc_std": 0.0123, "roc_auc_clients_left_out": 2}
        best["metrics"] |= {"roc_auc": 0.7456, "roc_auc_std": 0.0234, "roc_auc_clients_left_out": 2}  # type: ignore[attr-defined]
    return told | changes


def make_run(
    root: Path,
    told: Mapping[str, Any] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    clients: int = 3,
    rounds: int = 3,
    metric: str = "accuracy",
    statistics: bool = True,
    curvature: bool = True,
    dropped: Mapping[tuple[int, int], str] | None = None,
    class_names: tuple[str, ...] = ("tree", "bush"),
    refused: Mapping[str, str] | None = None,
    spaces: tuple[str, ...] = (),
) -> Path:
    """A run directory as the server writes it, of invented figures; a dropped reply leaves its
    cells empty.

    With `spaces`, the names of data sets, one client after the other holds graphs of them in turn.
    """
    config = parse({"run-name": "invented", "results-dir": str(root), **(settings or {})})
    directory = RunDirectory.open(config)
    about = {"forman": -3.5, "num_train": 7, "num_test": 9, "class_counts": [3] * len(class_names)}
    own_ends = len(set(spaces)) > 1
    if spaces:
        about |= {"num_graphs": 20, "num_nodes": 300}
    directory.write_clients(
        {
            "clients": [
                {
                    "partition": partition,
                    "task": "graphs" if spaces else "nodes",
                    "space": spaces[partition % len(spaces)] if spaces else "",
                    "metric": metric,
                    "class_names": class_names,
                    "partition_digest": "ab12",
                    "num_partitions": clients + len(refused or {}),
                    "statistics": about | {"forman": -3.5 - partition} if statistics else {},
                }
                for partition in range(clients)
            ],
            "refused": refused or {},
            "facts": {"class_names": () if own_ends else class_names, "own_ends": own_ends},
        }
    )
    rng = np.random.default_rng(0)
    for number in range(1, rounds + 1):
        rows = []
        for partition in range(clients):
            row: dict[str, Any] = {
                "round": number,
                "phase": "train",
                "partition": partition,
                "bytes_down": 10,
            }
            reason = (dropped or {}).get((number, partition))
            scored = {
                "score": rng.random(),
                "validation": rng.random(),
                "loss": rng.random(),
                "bytes_up": 10,
            }
            if curvature and statistics:
                scored["curvature"] = -1 - rng.random()
            rows.append(row | ({"dropped": reason} if reason else scored))
        directory.append({"round": number, "phase": "train", "seconds": 0.5}, rows)
    directory.write_summary(
        summary(metric, num_clients=clients, rounds=rounds) if told is None else told
    )
    return directory.path


def report(folder: Path) -> Page:
    return Page(write_report(folder))


@pytest.mark.parametrize("absent", only(FILES, {"summary.json", "clients.csv"}.__contains__))
def test_any_file_may_be_absent(tmp_path: Path, absent: str) -> None:
    folder = make_run(tmp_path)
    (folder / absent).unlink()
    page = report(folder)
    assert f"Not in the run directory: {absent}." in page.text
    assert ("68.8% ± 4.3%" in page.text) == (absent != "summary.json")


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    whole = report(folder).rows
    for name in ("rounds.csv", "clients.csv"):
        with (folder / name).open("a") as file:
            file.write("4,train,0")
    assert report(folder).rows == whole


def test_equal_files_give_equal_bytes_whatever_the_users_settings(tmp_path: Path) -> None:
    import matplotlib

    folder = make_run(tmp_path)
    first = write_report(folder).read_bytes()
    with matplotlib.rc_context({"axes.labelsize": 30, "xtick.minor.visible": True}):
        assert write_report(folder).read_bytes() == first
        assert matplotlib.rcParams["axes.labelsize"] == 30


def test_the_commands_ask_for_the_same_run(tmp_path: Path) -> None:
    settings = {
        "method": "fedprox",
        "fedprox.mu": 0.5,
        "seed": 4,
        "learning-rate": 1e-05,
        "share-statistics": True,
        "data-dir": '/my data/a "quoted" 100%',
    }
    alone, ray, flower = report(
        make_run(tmp_path, settings=settings, refused={"node 9": "late"})
    ).commands
    assert (alone[:2], ray[:2], alone[2:]) == (["curvfed", "simulate"], ["curvfed", "run"], ray[2:])
    wanted = settings | {"dataset": "trees", "results-dir": str(tmp_path)}
    assert parse_config_args([flower[flower.index("--run-config") + 1]]) == wanted
    assert (
        parse_config_args([flower[flower.index("--federation-config") + 1]])["num-supernodes"] == 4
    )
    read = read_pairs(alone[2:], defaults() | {"num-supernodes": 1})
    # a number, for its default is a text
    assert read == wanted | {"num-supernodes": 4, "learning-rate": "1e-05"}


def test_gaps_hold_what_was_measured_last() -> None:
    rng = np.random.default_rng(1)
    values = np.where(rng.random((12, 7)) < 0.5, np.nan, rng.random((12, 7)))
    expected = np.full_like(values, np.nan)
    for client in range(7):
        last = np.nan
        for number in range(12):
            last = last if np.isnan(values[number, client]) else values[number, client]
            expected[number, client] = last
    np.testing.assert_array_equal(charts.known(values), expected)
    means = [np.mean(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan for row in values]
    np.testing.assert_allclose(charts.row_means(values), means, rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "pictures"), [(make_run, 5), (make_image_run, 7), (make_hull_run, 2)]
)
def test_a_page_stands_alone_and_has_its_pictures(make: Any, pictures: int, tmp_path: Path) -> None:
    page = report(make(tmp_path))
    check_stands_alone(page)
    assert page.tags.count("figcaption") == page.tags.count("svg") == len(titles(page)) == pictures


@pytest.mark.parametrize("count", [2, 3, 5, 6, 10, 100])
def test_intervals_of_means_are_students(count: int) -> None:
    low, high = run_tables._interval_of_mean(0.5, 0.01, count) or (0, 0)
    expected = stats.t.ppf(0.975, count - 1) * 0.01 / np.sqrt(count)
    assert (high - low) / 2 == pytest.approx(expected, rel=2e-3)
    assert run_tables._interval_of_mean(0.5, 0.01, 1) is None


def test_figures_are_those_of_the_summary(tmp_path: Path) -> None:
    page = report(make_run(tmp_path, metric="roc_auc", dropped={(3, 1): "late"}))
    assert page.rows["personal accuracy"] == ["68.8% ± 4.3%", "70.1% ± 3.0%"]
    assert page.rows["ROC-AUC"] == ["73.2% ± 1.2%", "74.6% ± 2.3%"]
    assert page.rows["a guess"] == ["50.0%", ""]
    assert page.rows["made up figure"] == ["12.500", "–"]
    assert page.rows["train"][0] == "3"
    assert page.rows["round 3, train"] == ["partition 1", "late"]


def test_what_other_machines_say_stays_text(tmp_path: Path) -> None:
    told = failed_summary(HOSTILE, "", parse({})) | {"rounds": 3, "dataset": HOSTILE}
    names = (HOSTILE, "\x00\ud800", "樹", "$x$")
    folder = make_run(
        tmp_path,
        told,
        dropped={(2, 1): HOSTILE},
        class_names=names,
        refused={"node \ud800": HOSTILE},
        spaces=(HOSTILE, "x" * 5000),
    )
    page = report(folder)
    check_stands_alone(page)
    assert HOSTILE in page.alerts[0]
    assert page.rows["start"] == ["node ?", HOSTILE]


def test_nonsense_of_a_client_costs_its_own_figures_alone(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    text = (folder / "clients.json").read_text()
    (folder / "clients.json").write_text(text.replace('"forman": -3.5', '"forman": "steep"'))
    assert "–" in report(folder).rows["0"]


def test_a_run_that_never_began(tmp_path: Path) -> None:
    folder = make_run(tmp_path, failed_summary("no data in /there", "", parse({})))
    for name in set(FILES) - {"summary.json", "config.toml"}:
        (folder / name).unlink()
    page = report(folder)
    assert "no data in /there" in page.alerts[0]
    assert "svg" not in page.tags
    (folder / "config.toml").unlink()
    (folder / "summary.json").unlink()
    assert "not finished" in report(folder).text


def test_no_rounds_one_client_and_empty_cells(tmp_path: Path) -> None:
    assert titles(report(make_run(tmp_path / "zero", rounds=0))) == ["Classes of the clients"]
    report(make_run(tmp_path / "one", clients=1))
    silent = {(number, partition): "no answer" for number in (1, 2, 3) for partition in range(3)}
    assert report(make_run(tmp_path / "silent", dropped=silent)).text.count("no answer") == 9


def test_private_statistics_leave_no_picture_of_them(tmp_path: Path) -> None:
    page = report(make_run(tmp_path, statistics=False))
    assert titles(page) == ["Test accuracy by round", "Training loss by round"]
    assert "share-statistics = false" in page.text


@pytest.mark.long
def test_many_clients_and_rounds_stay_small(tmp_path: Path) -> None:
    many = {(number, partition): "lost" for number in range(1, 11) for partition in range(30)}
    page = report(make_run(tmp_path, clients=60, rounds=300, dropped=many))
    assert len(page.source) < 2_000_000
    assert page.source.count(">lost<") == MOST_DROPPED


def test_a_run_may_leave_its_report_out(tmp_path: Path) -> None:
    folder = run(tmp_path, method="local", num_rounds=1, embedding_dim=8, report=False).path
    assert not (folder / "report.html").exists()
    assert write_report(folder).exists()

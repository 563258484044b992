"""The report: right figures, complete in itself, safe with what other machines say, made of
whatever files there are."""

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common.config import parse_config_args
from hypothesis import given
from hypothesis import strategies as st
from report_page import HOSTILE, Page, drawn_texts

from curvfed.deployments.pairs import read_pairs
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import failed_summary
from curvfed.server_app.report import charts, round_figures
from curvfed.server_app.report.run_page import MOST_DROPPED, write_report
from curvfed.server_app.report.units import duration, percent, size
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import parse

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


def test_nothing_is_asked_of_the_network(tmp_path: Path) -> None:
    page = report(make_run(tmp_path))
    assert not {"script", "iframe", "object", "img", "base"} & set(page.tags)
    pointing = [
        value
        for name, value in page.attributes
        if name in ("src", "href", "xlink:href", "action", "data")
    ]
    pointing += re.findall(r"url\(([^)]*)\)", page.source)
    assert pointing
    assert all(target.startswith(("#", "data:")) for target in pointing)
    assert "@import" not in page.source
    assert "://" not in page.source
    # What is pointed at is there, and once: pictures do not share names.
    names = [value for name, value in page.attributes if name == "id"]
    assert len(names) == len(set(names))
    assert {target[1:] for target in pointing if target.startswith("#")} <= set(names)
    assert ("name", "viewport") in page.attributes


def test_pictures_take_the_colours_of_the_page(tmp_path: Path) -> None:
    page = report(make_run(tmp_path))
    drawings = "".join(re.findall(r"<svg.*?</svg>", page.source, re.DOTALL))
    assert re.findall(r"(?:fill|stroke): (?!none)(?!var\()[^;\"]+", drawings) == []
    used = set(re.findall(r"var\(--(\w+)\)", page.source)) - {"share"}
    light, dark = (
        set(re.findall(r"--(\w+):", block))
        for block in re.findall(r":root \{(.*?)\}", page.source, re.DOTALL)
    )
    assert used <= light == dark


def test_figures_are_those_of_the_summary(tmp_path: Path) -> None:
    page = report(make_run(tmp_path))
    assert page.rows[""] == ["per client and round", "whole run"]
    assert page.rows["Accuracy after local training"] == ["68.76% ± 4.32%", "70.12% ± 3.00%"]
    assert page.rows["Accuracy before local training"] == ["60.00%", "65.00%"]
    assert page.rows["Accuracy, pooled over all test data"] == ["71.00%", "–"]
    assert page.rows["Accuracy of the most frequent class alone"] == ["41.11%", "41.11%"]
    assert page.rows["Clients left out, without test data"] == ["1", "1"]
    assert page.rows["Validation accuracy"] == ["62.00%", "66.00%"]
    assert page.rows["Made up figure"] == ["12.5000", "–"]
    assert "Last round (3)" in page.text
    assert "Best validation (round 2)" in page.text
    assert page.rows["To the server"] == ["1.5 kB", "90 B"]
    assert page.rows["To the clients"] == ["2.0 MB", "90 B"]
    assert page.rows["Personal parameters sent"] == ["0 B", "0 B"]
    assert page.rows["Whole run"] == ["1 min 23 s"]
    # 83.2 s less 3 times 0.5 s
    assert page.rows["Outside the rounds: data, models, checkpoints"] == ["1 min 22 s"]
    assert page.rows["First round, with what is set up once"] == ["0.50 s"]
    assert page.alerts == []


def test_the_worst_tenth_stands_for_each_model_by_name(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    summary = json.loads((folder / "summary.json").read_text())
    for part, worst, before in ((summary, 0.5, 0.25), (summary["best_validation"], 0.625, 0.375)):
        part["personal_accuracy_worst_decile"] = worst
        part["metrics"]["personal_accuracy_before_worst_decile"] = before
    (folder / "summary.json").write_text(json.dumps(summary))
    shown = report(folder).rows
    assert shown["… of the worst tenth of the clients, after local training"] == [
        "50.00%",
        "62.50%",
    ]
    assert shown["… of the worst tenth of the clients, before local training"] == [
        "25.00%",
        "37.50%",
    ]


def test_the_last_figures_of_every_client_are_told(tmp_path: Path) -> None:
    folder = make_run(tmp_path, dropped={(3, 1): "no reply within 600 s"})
    lines = [line.split(",") for line in (folder / "clients.csv").read_text().splitlines()]
    score = lines[0].index("score")
    last = {line[2]: float(line[score]) for line in lines[1:] if line[score]}
    page = report(folder)
    for partition, value in last.items():
        assert f"{100 * value:.2f}%" in page.rows[partition]


def test_auc_is_called_auc(tmp_path: Path) -> None:
    page = report(make_run(tmp_path, metric="roc_auc"))
    assert page.rows["ROC-AUC after local training"] == ["73.21% ± 1.23%", "74.56% ± 2.34%"]
    assert page.rows["ROC-AUC: clients left out, with one class"] == ["2", "2"]
    assert page.rows["Accuracy after local training"] == ["68.76% ± 4.32%", "70.12% ± 3.00%"]
    assert "Validation ROC-AUC" in page.rows
    assert any(label.startswith("Line chart of test ROC-AUC by round.") for label in page.labels)
    assert "guessing" in page.text


def test_every_picture_has_words_and_a_caption(tmp_path: Path) -> None:
    page = report(make_run(tmp_path))
    lines, scatter, cells = page.labels[:3], page.labels[3], page.labels[4]
    course = re.compile(
        r"Line chart of .* by round\. The mean over the clients goes from .* to .*\."
    )
    assert all(course.fullmatch(line) for line in lines)
    assert scatter.startswith(
        "Scatter plot of 3 clients: mean Forman–Ricci curvature from -5.50 to -3.50, "
    )
    assert (
        cells == "A cell per client and class, 3 clients and 2 classes; the largest holds 3 nodes."
    )
    assert page.tags.count("figcaption") == page.tags.count("figure") == page.tags.count("svg")
    assert "test accuracy (%)" in page.text
    assert "best validation: round 2" in page.text


def test_what_other_machines_say_stays_text(tmp_path: Path) -> None:
    told = failed_summary(HOSTILE, "", parse({})) | {"rounds": 3, "dataset": HOSTILE}
    names = (HOSTILE, "\x00\ud800", "樹", "$x$")
    folder = make_run(
        tmp_path,
        told,
        dropped={(2, 1): HOSTILE},
        class_names=names,
        refused={"node \ud800": HOSTILE},
    )
    page = report(folder)
    assert not {"script", "img"} & set(page.tags)
    assert not {name for name, _ in page.attributes if name.startswith("on")}
    assert page.alerts[0].startswith("The run failed after round 3.")
    assert HOSTILE in page.alerts[0]
    assert page.rows["start"] == ["node ?", HOSTILE]
    assert page.rows["round 2"] == ["partition 1", HOSTILE]
    assert "$x$" in page.text


def test_nonsense_of_a_client_costs_its_own_figures_alone(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    text = (folder / "clients.json").read_text()
    assert text.count('"forman": -3.5') == 1
    (folder / "clients.json").write_text(
        text.replace('"forman": -3.5', '"forman": "steep"').replace("3,\n     3", "3", 1)
    )
    page = report(folder)
    assert any(label.startswith("Scatter plot of 2 clients") for label in page.labels)
    assert any("per client and class, 2 clients" in label for label in page.labels)
    assert "–" in page.rows["0"]


@pytest.mark.parametrize("absent", FILES)
def test_any_file_may_be_absent(tmp_path: Path, absent: str) -> None:
    folder = make_run(tmp_path)
    (folder / absent).unlink()
    page = report(folder)
    assert f"Not in the run directory: {absent}." in page.text
    assert ("68.76% ± 4.32%" in page.text) == (absent != "summary.json")


def test_a_run_that_never_began(tmp_path: Path) -> None:
    folder = make_run(tmp_path, failed_summary("no data in /there", "", parse({})))
    for name in set(FILES) - {"summary.json", "config.toml"}:
        (folder / name).unlink()
    page = report(folder)
    assert page.alerts[0].startswith(
        "The run failed before its first round was over.no data in /there"
    )
    assert "svg" not in page.tags
    (folder / "config.toml").unlink()
    (folder / "summary.json").unlink()
    assert "not finished" in report(folder).text


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    whole = report(folder).rows
    for name in ("rounds.csv", "clients.csv"):
        with (folder / name).open("a") as file:
            file.write("4,train,0")
    assert report(folder).rows == whole


def test_no_rounds_one_client_and_empty_cells(tmp_path: Path) -> None:
    zero = report(make_run(tmp_path / "zero", rounds=0))
    assert "Before any training the 3 clients" in zero.text
    assert [label.split(" ")[0] for label in zero.labels] == ["A"]
    one = report(make_run(tmp_path / "one", clients=1))
    assert "After 3 rounds the client reaches a test accuracy of 68.76%;" in one.text
    silent = {(number, partition): "no answer" for number in (1, 2, 3) for partition in range(3)}
    assert report(make_run(tmp_path / "silent", dropped=silent)).text.count("no answer") == 9
    assert (
        len(report(make_run(tmp_path / "late", dropped={(1, p): "late" for p in range(3)})).labels)
        == 5
    )


def test_secure_sums_say_what_was_seen_and_what_they_cost(tmp_path: Path) -> None:
    folder = make_run(tmp_path, settings={"secure-sum": True})
    directory = RunDirectory(parse({}), folder)
    assert "Parameters alone, without what Flower wraps around them." in report(folder).text
    for number in (1, 2, 3):
        for phase, up, down in (
            ("keys", 64, 45),
            ("shares", 200, 100),
            ("confirm", 6, 2),
            ("unmask", 30, 3),
        ):
            rows = [
                {
                    "round": number,
                    "phase": phase,
                    "partition": p,
                    "bytes_up": up,
                    "bytes_down": down,
                }
                for p in (0, 1, 2)
            ]
            rows[1] |= {"dropped": "not signed"} if (number, phase) == (2, "keys") else {}
            directory.append(
                {"round": number, "phase": phase, "bytes_up": up, "bytes_down": down}, rows
            )
    page = report(folder)
    assert (
        "Parameters were seen as their sum over the clients alone (secure-sum = true): 3 secure"
        " sums, each" in page.text
    )
    assert "Parameters alone" not in page.text
    assert page.rows["To the server"] == ["1.5 kB", f"{(90 + 9 * 300) / 1000:.1f} kB"]
    assert page.rows["… keys, shares, confirm and unmask, to the server"] == ["300 B", "2.7 kB"]
    assert page.rows["… keys, shares, confirm and unmask, to the clients"] == ["150 B", "1.4 kB"]
    assert page.rows["round 2, phase keys"] == ["partition 1", "not signed"]
    (folder / "clients.csv").unlink()
    assert report(folder).rows["… keys, shares, confirm and unmask, to the server"] == [
        "300 B",
        "–",
    ]


def test_where_nothing_is_told_of_the_clients_there_is_no_table_of_them(tmp_path: Path) -> None:
    page = report(make_run(tmp_path, statistics=False, rounds=0))
    assert page.rows.keys() & {"0", "1", "2", "client"} == set()
    assert (
        "keep their class counts, sizes, curvatures and mistakes by class to themselves"
        in page.text
    )


def test_private_statistics_leave_no_picture_of_them(tmp_path: Path) -> None:
    page = report(make_run(tmp_path, statistics=False))
    assert [label.split(". ")[0] for label in page.labels] == [
        "Line chart of test accuracy by round",
        "Line chart of training loss by round",
    ]
    assert (
        "keep their class counts, sizes, curvatures and mistakes by class to themselves"
        in page.text
    )


def test_flat_methods_have_no_curvature(tmp_path: Path) -> None:
    page = report(
        make_run(tmp_path, summary(method="fedavg"), settings={"method": "fedavg"}, curvature=False)
    )
    assert not any("urvature" in label for label in page.labels)
    assert "Personal parameters sent" not in page.rows


def test_several_data_sets_are_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path, spaces=("MUTAG", "PROTEINS"), class_names=("0", "1"))
    page = report(folder)
    assert page.rows["client"][:4] == ["data set", "graphs", "nodes", "training"]
    assert [page.rows[client][:4] for client in "012"] == [
        ["MUTAG", "20", "300", "7"],
        ["PROTEINS", "20", "300", "7"],
        ["MUTAG", "20", "300", "7"],
    ]
    assert "sizes in graphs" in page.text
    cells = page.labels[4]
    assert (
        cells == "A cell per client and class, 3 clients and 4 classes; the largest holds 3 graphs."
    )
    drawings = dict(zip(page.labels, drawn_texts(page), strict=True))
    assert [text for text in drawings[cells] if ":" in text] == [
        "MUTAG: 0",
        "MUTAG: 1",
        "PROTEINS: 0",
        "PROTEINS: 1",
    ]
    # At the ends of the lines of accuracy, from the client with the least to that with the most.
    last = [line.split(",") for line in (folder / "clients.csv").read_text().splitlines()]
    score = last[0].index("score")
    order = [
        ("MUTAG", "PROTEINS", "MUTAG")[int(line[2])]
        for line in sorted(last[-3:], key=lambda line: float(line[score]))
    ]
    assert [text for text in drawings[page.labels[0]] if text in ("MUTAG", "PROTEINS")] == order
    # What touches features and classes stays with the client in any method.
    assert page.rows["Personal parameters sent"] == ["0 B", "0 B"]
    assert "(*.time, *.gate, k, estimator.*, input.*, head.*) stay with the client" in page.text


def test_a_flat_method_keeps_the_ends_of_several_data_sets(tmp_path: Path) -> None:
    settings = {"method": "fedavg"}
    several = report(
        make_run(tmp_path / "a", summary(**settings), settings=settings, spaces=("MUTAG", "BZR"))
    )
    assert "Personal parameters (input.*, head.*) stay with the client" in several.text
    one = report(make_run(tmp_path / "b", summary(**settings), settings=settings))
    assert "Personal parameters" not in one.text
    assert "data set" not in one.rows["client"]


def test_where_one_of_several_data_sets_is_left_its_classes_are_counted(tmp_path: Path) -> None:
    """The others' clients were refused, so that all that are left have the same classes."""
    page = report(make_run(tmp_path, spaces=("MUTAG",), refused={"node 2": "no files of BZR"}))
    assert (
        page.labels[4]
        == "A cell per client and class, 3 clients and 2 classes; the largest holds 3 graphs."
    )
    assert page.rows["1"][0] == "MUTAG"


def test_names_of_data_sets_stay_text_and_within_the_picture(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "hostile", spaces=(HOSTILE, "\x00\ud800", "x" * 5000)))
    assert not {"script", "img"} & set(page.tags)
    assert page.rows["0"][0] == HOSTILE
    texts = drawn_texts(page)[0]
    assert {HOSTILE[:17] + "…", "??", "x" * 17 + "…"} <= set(texts)
    assert max(map(len, texts)) < 40
    # 23 lines of text are higher than the picture
    for clients, names in [(22, 22), (24, 0), (40, 0)]:
        page = report(
            make_run(tmp_path / f"{clients}", clients=clients, rounds=2, spaces=("MUTAG", "BZR"))
        )
        assert sum(text in ("MUTAG", "BZR") for text in drawn_texts(page)[0]) == names


class Axes:
    """Takes down where names are put."""

    def __init__(self) -> None:
        self.places: list[tuple[str, float]] = []

    def get_ylim(self) -> tuple[float, float]:
        return 20.0, 100.0

    def annotate(
        self, name: str, point: tuple[float, float], place: tuple[float, float], **style: Any
    ) -> None:
        self.places.append((name, place[1]))


@given(
    st.lists(
        st.floats(20, 100) | st.sampled_from([20.0, 61.5, 62.0, 100.0]), min_size=1, max_size=22
    )
)
def test_names_at_the_ends_of_lines_do_not_touch(ends: list[float]) -> None:
    axes, names = Axes(), [str(client) for client in range(len(ends))]
    round_figures._name_ends(
        axes, np.array([1.0, 2.0]), np.array([[50.0] * len(ends), ends]), names
    )
    heights = [height for _, height in axes.places]
    assert sorted(name for name, _ in axes.places) == sorted(names)
    assert [ends[int(name)] for name, _ in axes.places] == sorted(ends)
    assert all(20 - 1e-9 <= height <= 100 + 1e-9 for height in heights)
    assert all(other - one >= 0.045 * 80 - 1e-9 for one, other in itertools.pairwise(heights))
    if np.diff(sorted(ends)).min(initial=9) > 0.045 * 80:
        np.testing.assert_allclose(heights, sorted(ends))


def test_equal_files_give_equal_bytes_whatever_the_users_settings(tmp_path: Path) -> None:
    import matplotlib

    folder = make_run(tmp_path)
    first = write_report(folder).read_bytes()
    with matplotlib.rc_context({"axes.labelsize": 30, "xtick.minor.visible": True}):
        assert write_report(folder).read_bytes() == first
        assert matplotlib.rcParams["axes.labelsize"] == 30


def test_many_clients_and_rounds_stay_small(tmp_path: Path) -> None:
    many = {(number, partition): "lost" for number in range(1, 11) for partition in range(30)}
    page = report(make_run(tmp_path, clients=60, rounds=300, dropped=many))
    assert len(page.source) < 2_000_000
    assert "middle 80%" in page.text
    assert (
        max(path.count("L") for path in re.findall(r' d="([^"]*)"', page.source))
        <= 2 * charts.MOST_POINTS + 2
    )
    assert any(
        label.startswith("A cell per client and class, 60 clients and 2 classes")
        for label in page.labels
    )
    assert "300 replies were dropped" in page.text
    assert page.source.count(">lost<") == MOST_DROPPED


@pytest.mark.parametrize("folder", ["/data", "/my data/100%", 'a "quoted" folder', "it's here"])
def test_the_commands_ask_for_the_same_run(tmp_path: Path, folder: str) -> None:
    settings = {
        "method": "fedprox",
        "fedprox.mu": 0.5,
        "seed": 4,
        "learning-rate": 1e-05,
        "share-statistics": True,
        "data-dir": folder,
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


def test_a_relative_path_is_told_from_the_root(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.pt").touch()
    (tmp_path / "trees").mkdir()  # a name that is no path
    for dataset, told in (
        ("mine.pt", str(tmp_path / "mine.pt")),
        ("trees", "trees"),
        ("gone.pt", "gone.pt"),
    ):
        alone, _, _ = report(
            make_run(tmp_path / dataset.replace(".", "-"), settings={"dataset": dataset})
        ).commands
        assert f"dataset={told}" in alone


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


def test_units() -> None:
    assert [size(count) for count in (0, 999, 1000, 999_949, 999_950, 2.5e12, 3e15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "999.9 kB",
        "1.0 MB",
        "2.5 TB",
        "3000.0 TB",
    ]
    assert [duration(seconds) for seconds in (0.0021, 3, 59.9, 60, 3600.2)] == [
        "0.0021 s",
        "3.00 s",
        "59.90 s",
        "1 min 00 s",
        "1 h 00 min",
    ]
    assert [percent(value) for value in (0.5, 1, None, float("nan"), True, "0.5")] == [
        "50.00%",
        "100.00%",
        *"––––",
    ]

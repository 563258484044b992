"""The report of one-shot runs: the disc with its hulls, curves over epsilon, and tables."""

import base64
import html
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hull_run import make_hull_run
from image_run import make_image_run
from PIL import Image
from report_page import HOSTILE, Drawn, Page, drawn_texts, section
from report_page import drawn as drawn_alone

from curvfed.server_app.directory.npz import write_npz
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.summary import failed_summary
from curvfed.server_app.report import write_report
from curvfed.server_app.report.class_scores import ON_COLOUR
from curvfed.server_app.report.disc import GRID, MOST_DOTS, geodesic
from curvfed.server_app.report.hull_figures import MOST_KEYS, hull_figures
from curvfed.server_app.report.style import HUES
from curvfed.strategies.config.parse import parse


def tables_of(run: RunFiles, title: str) -> list[str]:
    """The names of the tables of a section."""
    return [value for name, value in section(run, title).attributes if name == "aria-label"]


def draw(folder: Path, number: int = 0) -> Drawn:
    return drawn_alone(lambda run: hull_figures(run)[number], RunFiles.read(folder))


def words(figure: Drawn) -> tuple[str, str]:
    """The picture in words, and its caption."""
    return figure.label, figure.caption


def texts(figure: Drawn) -> list[str]:
    return figure.texts


class Drawing:
    """The paths of a picture of the whole disc, in the coordinates of the disc."""

    def __init__(self, figure: Drawn) -> None:
        found = re.findall(r'<path d="([^"]*)"[^>]*style="([^"]*)"', figure.svg)
        (circle,) = (numbers(d) for d, style in found if "var(--soft)" in style and "C" in d)
        self.low, self.high = circle.min(axis=0), circle.max(axis=0)
        self.paths = [(re.split(r"(?=M)", d)[1:], style) for d, style in found]

    def lines(self, *marks: str) -> list[np.ndarray]:
        """The lines of all paths whose style has all of these."""
        parts = [
            part
            for lines, style in self.paths
            if all(mark in style for mark in marks)
            for part in lines
        ]
        return [self.place(numbers(part)) for part in parts]

    def place(self, at: np.ndarray) -> np.ndarray:
        return (2 * (at - self.low) / (self.high - self.low) - 1) * [1, -1]


def numbers(path: str) -> np.ndarray:
    return np.array(re.findall(r"-?\d+\.?\d*", path), dtype=float).reshape(-1, 2)


PIXEL = 2 / 320  # of the disc to a point of print; coordinates have two decimals
DOT, WRONG, DECISION = (
    ("stroke-width: 3", "opacity: 0.4"),
    ("var(--ink)", "stroke-width: 0.9"),
    "stroke-width: 1.8",
)


def arrays(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "hulls.npz") as told:
        return dict(told)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has everything. Read only."""
    return make_hull_run(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def drawn(whole: Path) -> list[Drawn]:
    """Its pictures."""
    return [draw(whole, number) for number in range(2)]


def test_the_page_is_complete_in_itself(whole: Path) -> None:
    page = Page(write_report(whole))
    assert page.labels[0].startswith("Poincaré disc with 9 convex hulls of 3 clients in 3 groups")
    assert page.tags.count("figcaption") == page.tags.count("figure") == page.tags.count("svg")
    assert not {"script", "iframe", "object", "img", "base"} & set(page.tags)
    pointing = [
        value
        for name, value in page.attributes
        if name in ("src", "href", "xlink:href", "action", "data")
    ]
    assert all(target.startswith(("#", "data:")) for target in pointing)
    assert "://" not in page.source
    names = [value for name, value in page.attributes if name == "id"]
    assert len(names) == len(set(names))
    assert write_report(whole).read_text() == page.source  # equal files, equal bytes
    drawings = "".join(re.findall(r"<svg.*?</svg>", page.source, re.DOTALL))
    assert set(re.findall(r"(?:fill|stroke): (?!none)(?!var\()([^;\"]+)", drawings)) <= {
        *HUES,
        ON_COLOUR,
    }


def test_tables_tell_what_the_summary_does(whole: Path) -> None:
    rows = section(RunFiles.read(whole), "Hulls").rows
    assert rows["Training points of all clients"] == ["180"]
    file = arrays(whole)
    assert rows["… that are vertices of hulls"] == [str(len(file["points"]))]
    assert rows["… as a share of the training points"] == [
        f"{100 * len(file['points']) / 180:.2f}%"
    ]
    assert rows["Prime of the sums"] == ["4,215,309,883"]
    assert rows["ε, hyperbolic distance"] == ["0.01"]
    assert rows["Decoded hulls are those of the clients"] == ["yes"]
    assert rows["… hulls in the group of their class"] == ["87.50%"]
    assert rows["Clients that dropped out"] == ["2"]
    for one, count in Counter(file["hull"].tolist()).items():
        first = int(np.argmax(file["hull"] == one))
        client, group = file["client"][first], file["group"][first]
        assert rows[str(one + 1)] == [
            str(client + 1),
            str(group + 1),
            str(file["names"][group]),
            str(count),
        ]


def told(folder: Path, **changes: Any) -> dict[str, Any]:
    """Change figures of the summary, or metrics of it; and the summary then."""
    summary = json.loads((folder / "summary.json").read_text())
    own = {name: value for name, value in changes.items() if name in summary}
    metrics = {name: value for name, value in changes.items() if name not in summary}
    summary |= own | {
        "metrics": {n: v for n, v in (summary["metrics"] | metrics).items() if v is not None}
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return summary


def in_words(folder: Path) -> str:
    found = re.search(r'<p class="lead">(.*?)</p>', write_report(folder).read_text(), re.DOTALL)
    return html.unescape(re.sub("<.*?>", "", found[1])) if found else ""


def test_the_result_in_sentences(tmp_path: Path) -> None:
    folder = make_hull_run(tmp_path)
    told(folder, dropouts=0, hull_points_shared=54, hull_share_revealed=0.3)
    of_all = (
        "54 of 180 training points (30.00%) left the clients, each as the bin (ε = 0.01) that it"
        " lies in."
    )
    begins = (
        "The Poincaré SVM trained on the secure sum of 3 clients' convex hulls has a test accuracy"
        " of 86.04%"
    )
    assert in_words(folder) == f"{begins}. {of_all}"
    told(folder, personal_accuracy_mean=0.7, personal_accuracy_std=0.1)
    own = (
        "has a mean accuracy of 70.00% on the clients' own test points (standard deviation over"
        " clients 10.00%)."
    )
    assert in_words(folder) == f"{begins}. It {own} {of_all}"
    told(folder, global_accuracy=None)
    assert in_words(folder).startswith(
        f"The Poincaré SVM trained on the secure sum of 3 clients' convex hulls {own} 54 of"
    )
    told(folder, personal_accuracy_mean=None)
    assert in_words(folder).startswith(
        "A Poincaré SVM is trained on the secure sum of 3 clients' convex hulls; there are"
    )


def test_points_of_clients_that_dropped_out_have_not_left_them(tmp_path: Path) -> None:
    folder = make_hull_run(tmp_path)
    number = len(arrays(folder)["points"])
    assert f" {number} vertices of hulls left the clients, each" in in_words(folder)
    told(folder, dropouts=0, hull_points=None)  # of real clients that do not tell
    assert f" {number} vertices of hulls left the clients, each" in in_words(folder)
    lost = {name: arrays(folder)[name] for name in ("client", "hull", "group", "points", "bins")}
    kept = lost["client"] < 2
    fewer = make_hull_run(
        tmp_path / "fewer", changes={name: column[kept] for name, column in lost.items()}
    )
    assert "the secure sum of 2 clients' convex hulls" in in_words(fewer)
    assert "Dashed are the hulls of all clients before" in words(draw(fewer))[1]
    assert "Dashed are the same hulls before" in words(draw(folder))[1]


def test_a_run_may_train_another_classifier(tmp_path: Path) -> None:
    folder = make_hull_run(tmp_path, settings={"hull.classifier": "logistic"})
    assert in_words(folder).startswith(
        "The logistic model trained on the secure sum of 3 clients' convex hulls has"
    )


def test_the_result_as_a_table(whole: Path, tmp_path: Path) -> None:
    assert section(RunFiles.read(whole), "Result").rows == {
        "Accuracy on the server's test points": ["86.04%"]
    }
    folder = make_hull_run(tmp_path)
    told(
        folder,
        personal_accuracy_mean=0.75,
        personal_accuracy_std=0.125,
        personal_accuracy_pooled=0.8,
        clients_left_out=1,
        new_accuracy=0.25,
        nodes_refused=0,
    )
    rows = section(RunFiles.read(folder), "Result").rows
    assert len(rows) == 6
    assert rows["Accuracy on the clients' own test points"] == ["75.00% ± 12.50%"]
    assert rows["… pooled over the clients"] == ["80.00%"]
    assert rows["… of the most frequent class alone"] == ["40.00%"]
    assert rows["… clients left out, without test points"] == ["1"]
    assert rows["New accuracy"] == ["25.00%"]


def test_no_figure_is_told_twice(whole: Path) -> None:
    page = Page(write_report(whole))
    first = [re.sub("<.*?>", "", row) for row in re.findall("<tr><th[^>]*>(.*?)</th>", page.source)]
    assert not [
        name for name, count in Counter(first).items() if count > 1 and name not in ("", "1", "2")
    ]
    assert not any(
        name.startswith(("Bytes up", "Bytes down", "Seconds", "Hull ", "Svm")) for name in first
    )
    assert "Last round" not in page.text
    assert ">0 rounds<" not in page.source
    assert ">one shot<" in page.source
    assert "Before any training" not in page.text
    assert "last round that scored" not in page.text


def test_every_phase_has_its_messages(whole: Path) -> None:
    rows = Page(write_report(whole)).rows
    assert rows["measure: how many points would leave"] == ["40 B", "64 B", "0.40 s"]
    assert rows["hulls: what is summed, encoded and masked"] == ["9.2 kB", "8 B", "1.25 s"]
    assert rows["all phases, all clients"] == ["–", "–", "1.65 s"]
    assert rows["Whole run"] == ["3.20 s"]


def ended(root: Path, phases: Sequence[str], **changes: Any) -> Page:
    """The page of a run without hulls, after some phases, of which clients.csv tells a lost reply
    in the last one."""
    config = parse(
        {
            "run-name": "ended",
            "results-dir": str(root),
            "method": "hull",
            **changes.pop("settings", {}),
        }
    )
    directory = RunDirectory.open(config)
    metrics = {
        f"{name}_{phase}": 8.0 for phase in phases for name in ("seconds", "bytes_up", "bytes_down")
    }
    for phase in phases:
        row = {"round": 0, "phase": phase, "bytes_up": 8, "bytes_down": 8}
        lost = {"partition": 1, "dropped": "no reply"} if phase == phases[-1] else {"partition": 1}
        directory.append(row, [row | {"partition": 0}, row | lost])
    metrics |= {
        "hull_points": 200,
        "hull_points_shared": 50,
        "hull_share_revealed": 0.25,
        "clients_left_out": 3,
    }
    about = {"num_clients": 3, "rounds": 0, "metrics": metrics if phases else {}, "seconds": 9.0}
    directory.write_summary(failed_summary("", "", config) | about | changes)
    return Page(write_report(directory.path))


def test_a_dry_run_says_what_would_leave(tmp_path: Path) -> None:
    dry = {"settings": {"hull.dry-run": True}, "status": "completed"}
    page = ended(tmp_path, ["measure"], **dry)
    told = (
        "A dry run: the clients have counted, and nothing else was sent. 50 of 200 training points"
        " (25.00%) would leave"
    )
    assert f"{told} the clients, each as the bin (ε = 0.01) that it lies in." in page.text
    assert page.rows["… that are vertices of hulls"] == ["50"]
    assert page.rows["all phases, all clients"] == ["16 B", "16 B", "8.00 s"]
    assert "masks cancel" not in page.text
    assert page.alerts == []
    private = ended(tmp_path / "private", ["measure"], **dry, metrics={})
    assert (
        "How many of a client's points would leave it is in that client's own log." in private.text
    )


@pytest.mark.parametrize(
    ("phases", "when", "seen"),
    [
        ([], "before its first phase was over", None),
        (["measure", "keys"], "after phase keys", True),
        (["measure", "keys", "shares", "hulls", "unmask"], "after phase unmask", False),
    ],
)
def test_a_failed_run_says_how_far_it_came(
    tmp_path: Path, phases: list[str], when: str, seen: bool | None
) -> None:
    page = ended(tmp_path, phases, status="failed", error="too few clients")
    assert page.alerts[0].startswith(f"The run failed {when}.too few clients")
    assert ("No mask was taken off: the server has seen no hull." in page.text) == (seen is True)
    assert "Last round" not in page.text
    if phases:
        assert page.rows[f"phase {phases[-1]}"] == ["partition 1", "no reply"]
        assert page.rows["Whole run"] == ["9.00 s"]


def test_figures_may_be_absent(tmp_path: Path) -> None:
    folder = make_hull_run(tmp_path)
    told = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(
        json.dumps(told | {"metrics": None, "global_accuracy": None})
    )
    run = RunFiles.read(folder)
    assert tables_of(run, "Hulls") == ["Hulls"]
    assert tables_of(run, "Result") == []
    (folder / "summary.json").unlink()
    assert [picture.words for picture in hull_figures(RunFiles.read(folder))] == [
        "disc",
        "confusion",
    ]


def test_hulls_are_drawn_with_all_their_corners_in_order(whole: Path, drawn: list[Drawn]) -> None:
    drawing, file = Drawing(drawn[0]), arrays(whole)
    styles = {"fill-opacity: 0.12": ("points", "hull"), "dasharray": ("true_points", "true_hull")}
    for mark, (points, hulls) in styles.items():
        lines = drawing.lines(mark)
        assert len(lines) == 9
        for number in range(9):
            corners = file[points][file[hulls] == number]
            (line,) = [
                line
                for line in lines
                if max(off_line(corner, line) for corner in corners) < 0.1 * PIXEL
            ]
            assert (line[0] == line[-1]).all()
            # Once round, however the corners are stored.
            turned = np.unwrap(np.arctan2(*(line - corners.mean(axis=0)).T[::-1]))
            assert (np.diff(turned) > -0.01).all()
            assert turned[-1] - turned[0] == pytest.approx(2 * np.pi)


def test_colours_of_groups_are_those_of_their_classes(whole: Path, drawn: list[Drawn]) -> None:
    """Groups are not numbered as the classes are."""
    drawing, file = Drawing(drawn[0]), arrays(whole)
    for label, hue in enumerate(HUES[:3]):
        group = file["names"].tolist().index(file["class_names"][label])
        centre = file["sample_points"][file["sample_labels"] == label].mean(axis=0)
        assert np.hypot(*(file["points"][file["group"] == group].mean(axis=0) - centre)) < 0.1
        for marks in (("fill-opacity: 0.12",), ("dasharray",), DOT):
            for line in drawing.lines(hue, *marks):
                assert np.hypot(*(line.mean(axis=0) - centre)) < 0.3


@pytest.mark.parametrize("per_hull", [20, 3000])
def test_every_dot_is_drawn_up_to_the_most(tmp_path: Path, per_hull: int) -> None:
    folder = make_hull_run(tmp_path, classes=("a", "b"), clients=1, per_hull=per_hull)
    figure, file = draw(folder), arrays(folder)
    kept = file["sample_labels"][:MOST_DOTS]
    marks = ("opacity: 0.4", "stroke-width: 2.2" if len(kept) > 400 else "stroke-width: 3")
    for label in np.unique(kept):
        dots = Drawing(figure).lines(HUES[label], *marks)
        assert len(dots) == (kept == label).sum()
        assert all(len(dot) == 2 and (dot[0] == dot[1]).all() for dot in dots)
        expected = file["sample_points"][:MOST_DOTS][kept == label]
        np.testing.assert_allclose([dot[0] for dot in dots], expected, atol=0.1 * PIXEL)
    assert ("(3,000 are drawn)" in words(figure)[1]) == (per_hull == 3000)


def test_crosses_are_on_what_is_predicted_wrongly(whole: Path, drawn: list[Drawn]) -> None:
    figure, file = drawn[0], arrays(whole)
    wrong = file["test_points"][file["test_labels"] != file["test_predicted"]]
    strokes = Drawing(figure).lines(*WRONG)
    assert len(strokes) == 2 * len(wrong) == 12
    middles = np.reshape([stroke.mean(axis=0) for stroke in strokes], (-1, 2, 2))
    np.testing.assert_allclose(middles, wrong[:, None].repeat(2, axis=1), atol=0.2 * PIXEL)
    assert "Crosses are the test points that are predicted wrongly, 6 of 90." in words(figure)[1]


@pytest.mark.parametrize("curvature", [-1.0, -0.04])
def test_lines_are_where_the_classifier_is_undecided(tmp_path: Path, curvature: float) -> None:
    folder = make_hull_run(tmp_path, classes=("a", "b"), curvature=curvature)
    run = RunFiles.read(folder)
    assert run.hulls is not None
    assert run.hulls.classifier is not None
    (line,) = Drawing(draw(folder)).lines("var(--ink)", DECISION)
    np.testing.assert_allclose(np.hypot(*line[[0, -1]].T), 1, atol=0.1 * PIXEL)
    inner = 0.999 * line / np.sqrt(-curvature)
    scores = run.hulls.classifier.model.decision_function(inner)
    scale = np.abs(run.hulls.classifier.model.decision_function(arrays(folder)["points"])).min()
    assert np.abs(scores).max() < 0.05 * scale
    assert (
        "The line is the classifier's decision, the diamond its reference point."
        in words(draw(folder))[1]
    )


def test_the_background_is_what_the_classifier_decides(whole: Path, drawn: list[Drawn]) -> None:
    figure, run = drawn[0], RunFiles.read(whole)
    assert run.hulls is not None
    assert run.hulls.classifier is not None
    data = re.search(r'base64,([^"]*)"', figure.svg)
    assert data is not None
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(data[1]))).convert("RGBA"))
    upwards = re.search(r"matrix\(\S+ \S+ \S+ (\S+)", figure.svg)
    # from the lower left pixel on
    image = image[::-1] if upwards is None or float(upwards[1]) > 0 else image
    assert image.shape == (GRID, GRID, 4)
    colour_of = {tuple(int(hue[at : at + 2], 16) for at in (1, 3, 5)): hue for hue in HUES[:3]}
    names = run.hulls.names
    for row, column in np.random.default_rng(0).integers(0, GRID, (300, 2)):
        point = 1.02 * (2 * np.array([column, row]) + 1 - GRID) / GRID
        if np.hypot(*point) > 0.99:
            continue
        group = int(run.hulls.classifier.predict(point[None])[0])
        hue = HUES[run.hulls.class_names.index(names[group])]
        assert colour_of[tuple(image[row, column, :3].tolist())] == hue
    assert not image[0, 0, 3]


@pytest.mark.parametrize(
    "spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b"none"), None]
)
def test_without_its_classifier_there_is_no_background(tmp_path: Path, spoil: Any) -> None:
    """Nor with that of another number of groups."""
    folder = make_hull_run(tmp_path)
    if spoil is None:
        other = make_hull_run(tmp_path / "other", classes=("a", "b"))
        (folder / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    else:
        spoil(folder / "model.safetensors")
    figure = draw(folder)
    assert "base64" not in figure.svg
    assert "background" not in words(figure)[1]
    assert len(Drawing(figure).lines("stroke-width: 1.1")) == 3


def test_real_nodes_points_stay_unknown(tmp_path: Path) -> None:
    folder = make_hull_run(tmp_path, simulated=False, tested=False)
    figure = draw(folder)
    label, caption = words(figure)
    assert (
        label
        == "Poincaré disc with 9 convex hulls of 3 clients in 3 groups, with 3 decision geodesics."
    )
    assert "the server does not know which class a group is" in caption
    assert "Dots" not in caption
    assert "Crosses" not in caption
    assert texts(figure) == ["group 1", "group 2", "group 3"]
    assert Drawing(figure).lines("opacity: 0.4") == Drawing(figure).lines("dasharray") == []
    tested = draw(make_hull_run(tmp_path / "tested", simulated=False))
    assert texts(tested) == ["ant", "bee", "cat"]
    assert len(Drawing(tested).lines(*WRONG)) == 12


def test_points_near_the_origin_are_drawn_from_nearer(tmp_path: Path) -> None:
    folder = make_hull_run(tmp_path, curvature=-0.0015, reach=0.1, classes=tuple("abcd"))
    figure, file = draw(folder), arrays(folder)
    told = re.search(
        r"The view is (\S+) times less wide than the disc, and (\S+) from side to side",
        words(figure)[1],
    )
    assert told is not None
    extent = np.ptp(
        np.concatenate([file["sample_points"], file["points"]]), axis=0
    ).max() * np.sqrt(0.0015)
    assert float(told[1]) == pytest.approx(2 / (1.1 * extent), rel=0.01)
    # Where the disc is nearly flat, a length is twice that of the coordinates.
    assert float(told[2]) == pytest.approx(2 * 1.1 * extent / np.sqrt(0.0015), rel=0.05)
    assert "less wide" not in words(draw(make_hull_run(tmp_path / "far")))[1]


def test_many_hulls_are_a_small_page(tmp_path: Path) -> None:
    classes = tuple(f"class {one}" for one in range(8))
    folder = make_hull_run(tmp_path, clients=10, classes=classes, per_hull=100, reach=0.9)
    page = Page(write_report(folder))
    assert len(page.source) < 700_000
    assert drawn_texts(page)[0] == list(classes)
    assert page.labels[0].startswith("Poincaré disc with 80 convex hulls of 10 clients in 8 groups")


def test_a_group_may_have_no_hulls(tmp_path: Path) -> None:
    names = {
        "names": np.array(["cat", "ant", "bee", ""]),
        "class_names": np.array(["ant", "bee", "cat", "dog"]),
    }
    figure = draw(make_hull_run(tmp_path, changes=names))
    assert texts(figure) == ["ant", "bee", "cat", "group 4"]
    assert len(Drawing(figure).lines("stroke-width: 1.1")) == 3
    assert "background" in words(figure)[1]


def test_more_classes_than_hues(tmp_path: Path) -> None:
    classes = tuple(f"class {one}" for one in range(30))
    assert texts(draw(make_hull_run(tmp_path, clients=1, classes=classes, per_hull=5))) == list(
        classes[:MOST_KEYS]
    )


def test_names_from_other_machines_do_no_harm(tmp_path: Path) -> None:
    page = Page(
        write_report(make_hull_run(tmp_path, classes=(HOSTILE, "b" * 400, "\x00\ud800"[:1] + "c")))
    )
    assert not {"script", "img"} & set(page.tags)
    assert max(map(len, drawn_texts(page)[0])) < 40


@pytest.mark.parametrize("kind", ["points", "segments", "equal", "far"])
def test_hulls_of_few_points(tmp_path: Path, kind: str) -> None:
    """Single points, segments, one point many times, and at the edge of what quantisation
    reaches.
    """
    rng = np.random.default_rng(1)
    hull = np.arange(6).repeat({"points": 1, "segments": 2, "equal": 1, "far": 3}[kind])
    points = rng.uniform(-0.6, 0.6, (len(hull), 2))
    if kind == "equal":
        points[:] = [0.3, 0.4]
    if kind == "far":
        points *= 0.99999 / np.hypot(*points.T)[:, None]
    changes: dict[str, Any] = {
        "points": points,
        "hull": hull,
        "client": hull // 3,
        "group": hull % 3,
    }
    changes |= {
        "bins": np.arange(len(hull)),
        "true_points": points,
        "true_hull": hull,
        "true_class": hull % 3,
    }
    folder = make_hull_run(tmp_path, changes=changes)
    lines = Drawing(draw(folder)).lines("fill-opacity: 0.12")
    assert len(lines) == 6
    for number in range(6):
        for corner in points[hull == number]:
            assert min(np.hypot(*(line - corner).T).min() for line in lines) < 0.1 * PIXEL


def test_other_runs_have_none(tmp_path: Path) -> None:
    run = RunFiles.read(
        make_image_run(tmp_path, clients=2, rounds=2, classes=("a", "b"), images=20, dim=3)
    )
    assert run.hulls is None
    assert "hulls.npz" not in run.absent
    assert hull_figures(run) == tables_of(run, "Hulls") == []


def rewrite(path: Path, **changes: Any) -> None:
    told = arrays(path.parent) | changes
    write_npz(path, {name: array for name, array in told.items() if array is not None})


def torn(path: Path) -> None:
    """Bytes within the archive that are not those that were written."""
    data = bytearray(path.read_bytes())
    for at in range(60, len(data) - 400, 40):
        data[at] ^= 255
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not an archive"),
        torn,
        lambda path: rewrite(path, group=None),
        lambda path: rewrite(path, names=np.array(["one"])),
        lambda path: rewrite(path, names=np.array([{"a": 1}], dtype=object)),
        lambda path: rewrite(path, points=np.zeros(9)),
        lambda path: rewrite(path, points=arrays(path.parent)["points"] * np.nan),
        lambda path: rewrite(path, points=arrays(path.parent)["points"] * 2),
        lambda path: rewrite(path, hull=arrays(path.parent)["hull"][:-1]),
        lambda path: rewrite(path, hull=np.zeros_like(arrays(path.parent)["hull"])),
        lambda path: rewrite(path, client=arrays(path.parent)["client"] - 1),
        lambda path: rewrite(path, group=arrays(path.parent)["group"] + 1),
        lambda path: rewrite(path, curvature=np.array(1.0)),
        lambda path: rewrite(path, curvature=np.array([1.0, 2.0])),
        lambda path: rewrite(path, curvature=np.array("flat")),
        lambda path: rewrite(path, epsilon=np.array(np.nan)),
        lambda path: rewrite(path, normals=np.zeros((2, 2))),
        lambda path: rewrite(path, normals=np.full((3, 2), np.inf)),
        lambda path: rewrite(path, sample_labels=arrays(path.parent)["sample_labels"] + 1),
        lambda path: rewrite(path, sample_labels=None),
        lambda path: rewrite(path, test_predicted=np.full(90, -2)),
        lambda path: rewrite(path, true_hull=np.zeros(3, int)),
        lambda path: rewrite(path, class_names=None),
        lambda path: rewrite(
            path, points=np.empty((0, 2)), hull=np.empty(0), client=np.empty(0), group=np.empty(0)
        ),
    ],
)
def test_an_unfit_file_is_left_out(tmp_path: Path, spoil: Any) -> None:
    folder = make_hull_run(tmp_path, model=False)
    spoil(folder / "hulls.npz")
    run = RunFiles.read(folder)
    assert run.absent == ["rounds.csv", "clients.csv", "hulls.npz"]
    assert hull_figures(run) == []
    assert tables_of(run, "Hulls") == ["Protocol"]
    assert "secure sum of the clients' convex hulls has a test accuracy of 86.04%" in in_words(
        folder
    )


def test_polylines_look_like_geodesics() -> None:
    """Their points lie on the geodesic: distances add up. What lies between is nearly straight."""

    def distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        gaps = (1 - np.square(one).sum(axis=-1)) * (1 - np.square(other).sum(axis=-1))
        return 2 * np.arcsinh(np.sqrt(np.square(one - other).sum(axis=-1) / gaps))

    rng = np.random.default_rng(2)
    for radius in (0.01, 0.6, 0.99, 0.9999):
        for _ in range(20):
            turns = 2 * np.pi * rng.random(2)
            start, end = (
                radius
                * np.stack([np.cos(turns), np.sin(turns)], axis=1)
                * rng.uniform(0.5, 1, (2, 1))
            )
            line = geodesic(start, end, 2 / 340)
            assert (line[[0, -1]] == [start, end]).all()
            whole = distance(start, end)
            np.testing.assert_allclose(
                distance(start, line) + distance(line, end), whole, rtol=1e-6, atol=1e-9
            )
            fine = geodesic(start, end, 2e-4)
            assert max(off_line(point, line) for point in fine) < 0.3 * 2 / 340
            assert len(line) < 60


def off_line(point: np.ndarray, line: np.ndarray) -> float:
    return min(off_segment(point, start, end) for start, end in itertools.pairwise(line))


def off_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    along = end - start
    share = np.clip((point - start) @ along / max(float(along @ along), 1e-300), 0, 1)
    return float(np.hypot(*(start + share * along - point)))

"""Classes that a single client has are told, with what they may be called at the others."""

import numpy as np
import pytest

import curvfed
from curvfed.deployments.commands.command import main

rng = np.random.default_rng(0)
POINTS = rng.uniform(-0.5, 0.5, (60, 2))


def warnings_of(labels, folder, **keys):
    keys = {"num_rounds": 1, "results_dir": folder / "results"} | keys
    keys |= {"quiet": True, "report": False}
    run = curvfed.simulate(
        data=[(POINTS, np.array(names)[np.arange(60) % len(names)]) for names in labels], **keys
    )
    assert run.summary["status"] == "completed"
    return [text for text in run.summary["warnings"] if "a single client has these classes" in text]


@pytest.mark.parametrize("method", ["fedavg", "hull"])
def test_names_that_differ_are_matched(tmp_path, method):
    labels = [
        ["B cell", "T cell", "NK"],
        ["b-cells", "T cell", "NK "],
        ["B cell", "T cell", "monocyte"],
    ]
    (text,) = warnings_of(labels, tmp_path, method=method)
    assert 'client 1 "b-cells", perhaps "B cell" of client 0' in text
    assert 'client 2 "monocyte"' in text
    assert '"NK' not in text
    assert text.index("b-cells") < text.index("monocyte")


@pytest.mark.parametrize(
    ("keys", "consequence"),
    [
        ({"method": "hull"}, "has their names, and the hulls that this client sends of them"),
        ({"method": "discriminant"}, "has their names, and the moments that this client sends"),
        ({"method": "hull", "secure": {"min_holders": 3}}, "Nobody else learns them"),
        ({"method": "fedavg"}, "knows of them is of this client alone"),
        (
            {"method": "fedavg", "secure_sum": True, "secure": {"min_holders": 3}},
            "knows of them is of this client alone",
        ),
        ({"method": "local"}, "Nobody else learns them"),
    ],
)
def test_the_warning_says_what_the_others_get_of_such_a_class(tmp_path, keys, consequence):
    centres = {"a": (-0.5, 0.5), "b": (-0.5, -0.5), "RareW": (0.6, 0.0)}
    data = []
    for names in ("ab", "ab", ("a", "b", "RareW")):
        labels = np.repeat(list(names), 20)
        points = np.array([centres[name] for name in labels])
        data.append((points + rng.normal(0, 0.05, points.shape), labels))
    keys = {"quiet": True, "report": False} | keys
    run = curvfed.simulate(data=data, num_rounds=3, results_dir=tmp_path, **keys)
    (text,) = [text for text in run.summary["warnings"] if "a single client has these" in text]
    assert consequence in text
    if keys["method"] != "local":
        answers = set(run.predict(data[2])["class"])
        assert ("RareW" in answers) == ("Nobody" not in consequence)


def test_nothing_is_said_of_classes_that_several_have_or_that_are_hidden(tmp_path):
    assert not warnings_of([["a", "b"], ["b", "a "]], tmp_path, method="fedavg")
    assert not warnings_of(
        [["a", "b"], ["c", "d"]], tmp_path, method="hull", hull={"num_classes": 2}
    )


def test_a_client_that_has_both_names_means_two_classes(tmp_path):
    (text,) = warnings_of([["T cell", "t cell", "b"], ["b", "T cell"]], tmp_path, method="fedavg")
    assert 'client 0 "t cell".' in text


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (["B-Zelle", "b-zelle", "T"], '"B-Zelle" and "b-zelle"'),
        (["T cell", "t_cells"], '"T cell" and "t_cells"'),
        (["CD4", "CD4+", "CD8"], None),
        (["A", "a"], None),
    ],
)
def test_names_that_differ_in_spelling_alone(names, pair, tmp_path):
    labels = np.array(names)[np.arange(60) % len(names)]
    keys = {"results_dir": tmp_path, "quiet": True, "report": False}
    run = curvfed.simulate("fedavg", data=[(POINTS, labels)], num_rounds=1, **keys)
    warnings = [text for text in run.summary["warnings"] if "spelling alone" in text]
    assert [pair in text for text in warnings] == [True] * (pair is not None)


def test_what_marks_a_missing_label_is_no_class_or_is_reported(tmp_path, caplog, capsys):
    names = ["a", "b", "Unassigned", "NA"]
    rows = [f"{x},{y},{names[number % 4]}" for number, (x, y) in enumerate(POINTS)]
    (tmp_path / "own.csv").write_text("\n".join(["x,y,label", *rows]))
    keys = {
        "num_rounds": 1,
        "results_dir": tmp_path / "results",
        "dataset": tmp_path / "own.csv",
        "report": False,
    }
    caplog.set_level("INFO", "curvfed")
    run = curvfed.simulate("fedavg", num_supernodes=2, **keys)
    assert [text for text in run.summary["warnings"] if "scored as classes: Unassigned." in text]
    assert caplog.text.count("15 of 60 points have no known class") == 1
    run = curvfed.simulate("fedavg", num_supernodes=2, **keys | {"points": {"classes": ["a", "b"]}})
    assert not [text for text in run.summary["warnings"] if "scored as classes" in text]
    assert main(["check", "method=fedavg", f"dataset={tmp_path}/own.csv", "num-supernodes=2"]) == 0
    assert "read: 15 of 60 points have no known class" in capsys.readouterr().out

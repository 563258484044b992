"""A path that differs in capital letters alone names other data, whose labels are wrong here."""

import numpy as np
import pytest
from absent_extensions import skip_without_tables
from app_runs import run
from graph_fixtures import user_fields, write_user_graph
from image_fixtures import write_classes
from predictions import ask


def write_points(path, names):
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    points = 0.2 * rng.standard_normal((80, 2)) + (0.5 * labels - 0.25)[:, None]
    rows = [f"{x!r},{y!r},{names[label]}" for (x, y), label in zip(points, labels, strict=True)]
    path.write_text("\n".join(rows).replace("np.float64(", "").replace(")", "") + "\n")


def write_images(folder, names):
    write_classes(folder, dict.fromkeys(names, 24), seed=0)


def write_nodes(path, names):
    labels = user_fields()["y"]
    write_user_graph(path, y=labels if names == ("cat", "dog") else 1 - labels)


def score(notes):
    return next(float(value) for name, value in notes.items() if name.startswith("accuracy"))


KINDS = {
    "images": ("pics", write_images, 48),
    "points": ("cells.csv", write_points, 80),
    "nodes": ("graph.pt", write_nodes, 60),
}


@pytest.mark.parametrize("kind", KINDS)
def test_another_path_is_not_the_runs_own(kind, tmp_path, monkeypatch, capsys):
    if kind == "points":
        skip_without_tables()
    name, write, count = KINDS[kind]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / name, ("cat", "dog"))
    other = name.replace(name[0], name[0].upper(), 1)
    write(tmp_path / other, ("dog", "cat"))
    method = "hull" if kind == "points" else "fedavg"
    made = run(
        tmp_path / "results",
        clients=2,
        method=method,
        dataset=f"./{name}",
        min_client_size=2,
        local_epochs=4,
    )
    own = ask(capsys, made.path, f"./{name}")[1]
    relative = ask(capsys, made.path, f"./{other}")
    absolute = ask(capsys, made.path, tmp_path / other)
    assert relative == absolute
    assert len(relative[0]) == count
    assert score(relative[1]) < 0.5 < score(own)

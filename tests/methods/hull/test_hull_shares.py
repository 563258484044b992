"""What a client says about the share of its points that would leave it, and what stays at home."""

import re

import numpy as np
from hull_nodes import blobs, decoded, expected, hull_run, nodes_of, training
from policies import with_policy


def test_a_class_of_too_few_points_stays_at_home(tmp_path):
    rare = blobs("024", seed=2)
    for half in ("train", "test"):
        labels = rare[f"y_{half}"]
        kept = np.sort(
            np.concatenate([np.flatnonzero(labels != "4"), np.flatnonzero(labels == "4")[:2]])
        )
        rare |= {f"x_{half}": rare[f"x_{half}"][kept], f"y_{half}": labels[kept]}
    parts = [blobs("02"), blobs("024", seed=1), rare]
    nodes = with_policy(tmp_path, nodes_of(tmp_path / "nodes", parts), "[sums]\nmin-holders = 1\n")
    run = hull_run(tmp_path, nodes=nodes, hull__min_class_size=3)
    sizes = np.bincount(np.unique(rare["y_train"], return_inverse=True)[1])
    assert sizes.tolist() == [12, 12, 2]
    points, labels = training(rare)
    assert decoded(run) == expected(
        [*map(training, parts[:2]), (points[labels < 2], labels[labels < 2])], 0.01
    )


def test_a_nodes_log_tells_the_share_of_each_class(tmp_path, caplog):
    caplog.set_level("INFO", "curvfed")
    parts = [blobs("02"), blobs("02", seed=1), blobs("2", seed=2)]
    nodes = with_policy(tmp_path, nodes_of(tmp_path / "nodes", parts), "[sums]\nmin-holders = 1\n")
    hull_run(tmp_path, nodes=nodes)
    assert re.search(r"partition 0, by class: 0 \d+ of 12, 2 \d+ of 12", caplog.text)
    assert re.search(r"partition 2, by class: 2 \d+ of 12", caplog.text)


def test_where_much_would_leave_the_client_proposes_what_would_help(tmp_path, caplog):
    settings = {"clients": 3, "points__num": 900, "hull__epsilon": 0.01, "hull__cap": 128}
    hull_run(tmp_path, "much", **settings)
    notes = r"partition (\d+): (\d+)% of its training points would leave it; "
    result = re.search(
        notes + r"with hull.epsilon = (\S+) and hull.cap = (\d+) it would be (\d+)%", caplog.text
    )
    assert result is not None
    partition, before, epsilon, cap, after = (float(one) for one in result.groups())
    assert before > 10 >= after
    caplog.clear()
    hull_run(tmp_path, "less", **settings | {"hull__epsilon": epsilon, "hull__cap": int(cap)})
    assert f"{partition:.0f}" not in {one[0] for one in re.findall(notes, caplog.text)}

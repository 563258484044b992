"""The curvature of a client's graph, from which its space starts: a value by hand."""

from graph_fixtures import graph_of

from curvfed.tasks.graphs.ricci import graph_curvature


def test_it_is_the_mean_over_the_edges(tmp_path):
    triangle_and_pair = graph_of(6, [(0, 1), (0, 2), (1, 2), (3, 4)])
    for kind in ("forman", "mlp"):
        assert graph_curvature(triangle_and_pair, kind, tmp_path) == (3 + 3 + 3 + 2) / 4
    assert list(tmp_path.iterdir()) == []

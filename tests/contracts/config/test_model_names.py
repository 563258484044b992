"""The names of models and partitions, which a configuration is checked by, are those of the code."""

from curvfed.tasks.graphs.data.partition import PARTITIONS as GRAPH_PARTITIONS
from curvfed.tasks.graphs.model_spec import MODELS as GRAPH_MODELS
from curvfed.tasks.images.label_partition import PARTITIONS as IMAGE_PARTITIONS
from curvfed.tasks.images.label_partition import USERS
from curvfed.tasks.images.nets import NETS
from curvfed.tasks.kinds import CORE
from curvfed.tasks.points.point_spec import PARTITIONS as POINT_PARTITIONS


def test_every_name_is_a_model_and_every_model_is_named():
    assert {task: set(kind.models) for task, kind in CORE.items() if kind.models} == {
        **{task: set(models) for task, models in GRAPH_MODELS.items()},
        "images": set(NETS),
    }


def test_every_partition_is_named():
    graphs, images, points = map(set, (GRAPH_PARTITIONS, IMAGE_PARTITIONS, POINT_PARTITIONS))
    names = {"nodes": graphs, "graphs": graphs, "images": images | {USERS}, "points": points}
    assert {task: set(kind.partitions) for task, kind in CORE.items()} == names

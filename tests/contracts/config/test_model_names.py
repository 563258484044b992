"""The names of the models, which are checked without importing the models, are those of the
models.
"""

from curvfed.tasks.graphs.models.registry import MODELS as GRAPH_MODELS
from curvfed.tasks.images.nets import NETS
from curvfed.tasks.names import MODELS


def test_every_name_is_a_model_and_every_model_is_named():
    assert {task: set(names) for task, names in MODELS.items() if names} == {
        **{task: set(models) for task, models in GRAPH_MODELS.items()},
        "images": set(NETS),
    }

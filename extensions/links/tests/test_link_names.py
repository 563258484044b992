"""The names that a configuration is checked by are those of the code."""

from curvfed.extensions.links.kind import KIND
from curvfed.extensions.links.models import MODELS


def test_every_name_is_a_model_and_every_model_is_named():
    assert set(KIND.models) == set(MODELS)

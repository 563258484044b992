"""The names that a configuration is checked by are those of the code."""

from curvfed.extensions.links.kind import KIND
from curvfed.extensions.links.models import MODELS
from curvfed.extensions.links.sources import LINK_SOURCES
from curvfed.strategies.methods import METHODS
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.registry import SOURCES


def test_every_name_is_a_model_and_every_model_is_named():
    assert set(KIND.models) == set(MODELS)


def test_the_kind_is_found_with_its_data_sets_and_methods():
    assert KINDS["links"] is KIND
    assert SOURCES.items() >= LINK_SOURCES.items()
    assert KIND.built_in in LINK_SOURCES
    assert METHODS[KIND.method].tasks == ("links",)

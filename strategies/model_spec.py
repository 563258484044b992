"""From configuration and facts to the shape of the model, the same on both sides."""

from strategies.config import RunConfig
from strategies.messages import Facts
from strategies.methods import METHODS
from tasks.graphs.models import ModelSpec


def model_spec(config: RunConfig, facts: Facts) -> ModelSpec:
    """The model that this run trains."""
    method = METHODS[config.method]
    return ModelSpec(
        kind=method.model,
        num_features=facts.num_features,
        num_classes=len(facts.class_names),
        width=config.embedding_dim,
        dropout=config.dropout,
        gate=config.flatland.gate,
        learns_curvature=method.learns_curvature,
    )

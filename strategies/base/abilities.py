"""Abilities that few methods have in addition to the contract of their halves. A half has an
ability if it has the methods of its protocol; whoever uses it asks by `isinstance`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from curvfed.strategies.base.statistics import Arrays

if TYPE_CHECKING:
    from torch import nn


@runtime_checkable
class StartsFromAll(Protocol):
    """A learner with a personal parameter that can start from figures of all clients' data."""

    @classmethod
    def asked_for(cls, keys: Any) -> str:
        """The name of the parameter: the server asks each client for its `answer`, if the model has
        the parameter; "" if these keys need no figures."""
        ...

    @classmethod
    def answer(cls, data: Any, keys: Any) -> dict[str, float]:
        """Figures of the client's data, by name; asked for once, before the first round, and sent
        only if statistics may leave the client."""
        ...

    @classmethod
    def start_figures(cls, answers: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
        """The figures that all clients receive, from all answers; the answer of a client that keeps
        it private, or did not reply, is empty."""
        ...

    def start(self, figures: tuple[float, ...]) -> None:
        """Set the parameter of a new client; figures are empty if the clients were not asked."""
        ...


@runtime_checkable
class RestoresModel(Protocol):
    """A learner that scores another model than the shared one."""

    @staticmethod
    def restored(model: "nn.Module", state: Arrays) -> "nn.Module":
        """The scored model, rebuilt from a model with the shared parameters and the stored
        `local_state`, for predictions after the run.

        Raises
        ------
        KeyError
            If a stored tensor is missing.
        """
        ...


@runtime_checkable
class TunesNetwork(Protocol):
    """A learner that makes another network by `fine_tune` than the run's."""

    @staticmethod
    def tuned_network(model: "nn.Module", state: Arrays, config: Any) -> "nn.Module":
        """A network that fits parameters stored as `state`, with any values, for predictions after
        the run; `model` has the run's network, `config` its keys."""
        ...

"""The entrants of a comparison: each method or rival with its default rate and the values that are
tuned, and a curved method also at curvature 0."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from curvfed.deployments.arguments import Value, check_request
from curvfed.extensions.sweeps.commands.compare import MODELS, RIVALS
from curvfed.extensions.sweeps.commands.compare.comparison import Entrant
from curvfed.strategies.config.build_method import curvature_key
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.strategies.run_log import log
from curvfed.tasks.kinds import KINDS

AT_ZERO = " at 0"
"""End of the name of an entrant that is another at curvature 0."""


def leaves_validation(task: str) -> bool:
    """Whether the default sizes of the other parts leave examples of a task for validation."""
    kind = KINDS[task]
    shares = kind.defaults["train_size"] + kind.defaults["test_size"]
    return kind.has_validation and bool(shares < 1)


@dataclass(frozen=True)
class EntrantReader:
    """Reads the entrants of a comparison.

    Attributes
    ----------
    task : str
    settings : mapping
        The user's keys, which are not tuned.
    alternatives : mapping of str to list
        The user's values of keys that are tuned for every method that reads them.
    num_supernodes : int
    score : str
        A key of `SCORES`.
    """

    task: str
    settings: Mapping[str, Value]
    alternatives: Mapping[str, list[Value]]
    num_supernodes: int
    score: str

    def entrants(self, name: str) -> dict[str, Entrant]:
        """The method or rival; a curved method also at curvature 0, or else its control.

        Raises
        ------
        ConfigError
            If it cannot run with these keys, or has no global model to score.
        """
        rivals = RIVALS.get(self.task, {})
        settings = dict(rivals.get(name, {"method": name}))
        row = METHODS[str(settings["method"])]
        if self.score == "global" and row.personal:
            raise ConfigError(
                f'score = "global": allowed with a method that has a global model; {name} has none',
                key="score",
            )
        entrant = self._entrant(settings)
        config = self._resolved(settings)
        key = curvature_key(config, self.task)
        if name in rivals or not (key or row.control):
            return {name: replace(entrant, is_rival=not key)}
        if key:
            flat = settings | {key: 0.0}
            parts: dict[str, Any] = {"at_zero": name + AT_ZERO}
        else:
            flat = dict(row.control)
            same = (rival for rival, keys in rivals.items() if keys == flat)
            parts = {"control": next(same, f"control of {name}")}
        (flat_name,) = parts.values()
        curved = replace(entrant, is_rival=False, **parts)
        return {name: curved, flat_name: self._entrant(flat)}

    def _entrant(self, settings: dict[str, Any]) -> Entrant:
        config = self._resolved(settings)
        rate = float(self.settings.get("learning-rate", config.learning_rate))
        decay = float(self.settings.get("weight-decay", config.weight_decay))
        axes = self._axes(config, settings)
        return Entrant(settings, rate, decay, str(config.optimizer), axes)

    def _resolved(self, settings: Mapping[str, Any]) -> RunConfig:
        request = check_request({**self.settings, **settings}, self.num_supernodes)
        return resolve_defaults(request.config, self.task)

    def _axes(self, config: RunConfig, settings: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The values of the tuned keys beside rate and decay, the default first: the method's own
        keys, the network, the schedule."""
        row = config.row
        axes: dict[str, Sequence[Any]] = {}
        for key, further in row.tuned.get(self.task, {}).items():
            axes[key] = (config[key], *further)
        if row.space == "flat" and self.task in MODELS:
            axes["model"] = MODELS[self.task]
        if leaves_validation(self.task) and not row.is_one_shot:
            axes["schedule"] = sorted(
                ("constant", "inverse"), key=lambda schedule: schedule != config.schedule
            )
        axes = {**axes, **self.alternatives}
        tuned = {}
        for key, values in axes.items():
            if key not in self.settings and key not in settings:
                allowed = self._allowed(key, list(dict.fromkeys(values)), settings)
                if len(allowed) > 1 or (allowed and key in self.alternatives):
                    tuned[key] = allowed
        return tuned

    def _allowed(self, key: str, values: list[Any], settings: Mapping[str, Any]) -> list[Any]:
        """The values of a key that the entrant can run with and reads.

        Raises
        ------
        ConfigError
            If it can run with none of the user's.
        """
        allowed = []
        refusals = []
        for value in values:
            try:
                config = self._resolved({**settings, key: value})
            except ConfigError as error:
                log.debug("%s is not tried: %s", settings["method"], error)
                refusals.append(error)
            else:
                if key not in config.unread:
                    allowed.append(value)
        if key in self.alternatives and len(refusals) == len(values):
            raise refusals[0]
        return allowed

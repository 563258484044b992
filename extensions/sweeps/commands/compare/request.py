"""Read a comparison from `key=value` arguments, and refuse it if no machine can make it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.deployments.arguments import (
    UsageError,
    Value,
    check_request,
    pop_count,
    pop_supernodes,
    read_pairs,
)
from curvfed.deployments.preflight import look_for_notes, notes_on_method
from curvfed.extensions.sweeps.commands.compare import (
    ALTERNATIVES,
    METHODS_BY_TASK,
    MODELS,
    OWN_KEYS,
    RIVALS,
)
from curvfed.extensions.sweeps.commands.pages import SCORES
from curvfed.extensions.sweeps.commands.pages.study import SUPERNODES
from curvfed.extensions.sweeps.commands.sweep import DEFAULTS, combinations, data_places, plan_run
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.config.build_method import curvature_key
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS, foreign_methods
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins
from curvfed.tasks.class_names import row_of
from curvfed.tasks.errors import near_names
from curvfed.tasks.kinds import KINDS

COMMAND = Path("compare")
"""The source of the runs in error texts; relative paths are relative to the working folder."""

MINIMA = {SUPERNODES: 1, "budget": 1, "tuning-seeds": 1, "seeds": 2}

UNTUNED = ("method", "dataset", "data-dir", "seed", "learning-rate", *OWN_KEYS)
"""Keys that cannot have several values; the learning rate is always tuned unless it is set."""

VALIDATION_SHARE = 0.1
"""Validation share of a client's images if no sizes are set; the default of a run is none."""

METHOD = "method; allowed are names of methods and rivals with commas between, auto, or all"
"""The meaning of a name in `methods`, and the form of the key."""

AT_ZERO = " at 0"
"""End of the name of an entrant that is another at curvature 0."""


@dataclass(frozen=True)
class Entrant:
    """A method that is compared, or a method with some of its keys.

    Attributes
    ----------
    settings : dict
        `method`, and the keys that make the entrant.
    rate, decay : float
        The method's default learning rate and weight decay.
    optimizer : str
    axes : dict of str to list
        Values of the other tuned keys, the default first.
    at_zero : str
        For a curved method, the name of the entrant that is itself at curvature 0; "" for none.
    control : str
        The name of its control among the entrants; "" for none.
    is_rival : bool
        Whether it is flat, so that somebody could use it in place of a curved method.
    """

    settings: dict[str, Any]
    rate: float
    decay: float
    optimizer: str
    axes: dict[str, list[Any]]
    at_zero: str = ""
    control: str = ""
    is_rival: bool = True


@dataclass(frozen=True)
class Comparison:
    """A comparison of methods.

    Attributes
    ----------
    task : str
        A key of `KINDS`.
    settings : dict
        The keys of all runs, with `num-supernodes`.
    places : dict
        `data-dir`, which the results do not depend on.
    numbers : dict of str to int
        `budget`, `tuning-seeds` and `seeds`.
    score : str
        A key of `SCORES`.
    entrants : dict of str to Entrant
        By name.
    against : str
        The rival, or "auto" for the best one; the runs do not depend on it.
    notes : tuple of str
        Possible faults of the data, in words.
    results : Path or None
        The folder of the runs by the key `results-dir`.
    """

    task: str
    settings: dict[str, Value]
    places: dict[str, Value]
    numbers: dict[str, int]
    score: str
    entrants: dict[str, Entrant]
    against: str = AUTO
    notes: tuple[str, ...] = ()
    results: Path | None = None

    @property
    def data(self) -> str:
        """The name of the data set, or of the user's file or folder."""
        return Path(str(self.settings["dataset"])).stem

    @property
    def first_config(self) -> RunConfig:
        """The configuration of the first entrant, without tuned values."""
        first = next(iter(self.entrants.values()))
        settings = self.settings | self.places | first.settings
        number = pop_supernodes(settings, 1)
        return check_request(settings, number).resolved

    @property
    def tuning_settings(self) -> dict[str, Value]:
        """Further keys of the runs by which configurations are chosen: points have no part for
        validation, so these runs hold a part of the training points out in place of the test
        points."""
        return {} if KINDS[self.task].has_validation else {"points.hold-out": "validation"}

    @property
    def plan(self) -> dict[str, Any]:
        """All keys that the results depend on, for JSON."""
        return {
            "methods": list(self.entrants),
            "score": self.score,
            **self.numbers,
            **self.settings,
            "tried": {name: asdict(entrant) for name, entrant in self.entrants.items()},
        }

    @property
    def seeds(self) -> tuple[range, range]:
        """The seeds for choosing configurations, and further ones for comparing methods."""
        first = int(self.settings.get("seed", DEFAULTS["seed"]))
        fresh = first + self.numbers["tuning-seeds"]
        return range(first, fresh), range(fresh, fresh + self.numbers["seeds"])


def read_comparison(pairs: Sequence[str], data: Path | None) -> Comparison:
    """Read the arguments, look at the data, and choose the configurations to try.

    Raises
    ------
    UsageError, ConfigError
    """
    keys = DEFAULTS | OWN_KEYS
    alternatives, single = _alternatives(pairs, keys)
    settings = read_pairs(single, keys)
    numbers = {key: pop_count(settings, key, keys[key], minimum) for key, minimum in MINIMA.items()}
    num_supernodes = numbers.pop(SUPERNODES)
    method = settings.pop("method", "")
    score = str(settings.pop("score", OWN_KEYS["score"]))
    against = str(settings.pop("against", OWN_KEYS["against"]))
    allowed_scores = (AUTO, *SCORES)
    _check_name(
        score, allowed_scores, f"score; allowed is one of {row_of(allowed_scores)}", "score"
    )
    # The method of a preset does not count.
    is_explicit = any(pair.startswith("method=") for pair in pairs)
    methods = str(settings.pop("methods", method if is_explicit else OWN_KEYS["methods"]))
    requested = [] if methods in (AUTO, "all") else list(dict.fromkeys(methods.split(",")))
    rivals = {name: keys for of_task in RIVALS.values() for name, keys in of_task.items()}
    what = f"{METHOD} ({plugins.all_names('methods', METHODS)})"
    for name in requested:
        if reason := foreign_methods()[1].get(name):
            raise ConfigError(f"methods: {name!r} is left out: {reason}", key="method-left-out")
        _check_name(name, [*METHODS, *rivals], what, "methods")
    data_dir = settings.pop("data-dir", None)
    if data is None and data_dir:
        data = Path(str(data_dir)).expanduser()
    results_dir = settings.pop("results-dir", None)
    results = Path(str(results_dir)).expanduser() if results_dir else None
    places = data_places(data)
    next(combinations(settings, COMMAND))
    first_method = rivals.get(requested[0], {"method": requested[0]}) if requested else FIRST
    settings |= plan_run({**settings, **first_method}, COMMAND).paths
    request = check_request({**settings, **places, **first_method}, num_supernodes)
    notes, first_data = look_for_notes(request)
    if first_data is not None:
        of_method = notes_on_method(request, first_data)
        notes = [note for note in notes if note not in of_method]
    task = request.task if first_data is None else first_data.task
    settings["dataset"] = request.config.dataset
    if KINDS[task].has_validation:
        _leave_validation(settings, request.resolved, task)
    score = _known_score(score, task, request.resolved)
    names = requested
    if methods == AUTO:
        names = list(METHODS_BY_TASK[task])
    elif methods == "all":
        names = [name for name in METHODS if task in METHODS[name].tasks]
        names += RIVALS.get(task, {})
    fixed = {key: value for key, value in settings.items() if key not in alternatives}
    for key, value in KINDS[task].comparison.recall.items():
        if score == "reconstruction":
            fixed.setdefault(key, value)
        elif fixed.get(key) == value:
            raise UsageError(
                f"{key} = {str(value).lower()}: allowed with score=reconstruction; score ="
                f' "{score}" ranks held-out {task}',
                key="no-held-out-links",
            )
    reader = _Reader(task, fixed, alternatives, num_supernodes, score)
    entrants: dict[str, Entrant] = {}
    for name in names:
        try:
            for entrant_name, entrant in reader.entrants(name).items():
                entrants.setdefault(entrant_name, entrant)
        except ConfigError as error:
            if requested:
                raise
            log.warning("%s is left out: %s", name, error)
    if len(entrants) < 2:
        raise UsageError(
            f'methods = "{methods}": allowed are two or more, with commas between, auto or all',
            key="methods",
        )
    if against != AUTO:
        flat = [AUTO, *(name for name, entrant in entrants.items() if entrant.is_rival)]
        words = f"flat one of the compared methods; allowed is one of {row_of(flat)}"
        _check_name(against, flat, words, "against")
    comparison = Comparison(
        task=task,
        settings={**fixed, SUPERNODES: num_supernodes},
        places=places,
        numbers=numbers,
        score=score,
        entrants=entrants,
        against=against,
        notes=tuple(notes),
        results=results,
    )
    if not KINDS[task].has_classes and score == "personal":
        _check_scored(task, comparison.first_config, num_supernodes)
    return comparison


def _check_scored(task: str, config: RunConfig, num_clients: int) -> None:
    """Refuse data of which no run would score a test example.

    Raises
    ------
    ConfigError
    """
    kind = KINDS[task]
    for client in range(num_clients):
        data: Any = load_data(config, Node(partition=client, num_partitions=num_clients))
        if kind.num_scored(data.statistics()):
            return
    raise ConfigError(f'dataset = "{config.dataset}": {kind.words.unscored}', key="unscored-links")


FIRST: Mapping[str, Value] = {"method": "local"}
"""The method by which the data are looked at if none is named: it runs on all of them."""


def _known_score(score: str, task: str, config: RunConfig) -> str:
    """The score, `auto` replaced, if the server can have it.

    Raises
    ------
    UsageError
    """
    kind = KINDS[task]
    if score == AUTO:
        return "personal" if kind.has_validation else "global"
    is_pooled = kind.has_shape and config.images.pooled
    if score == "global" and (not kind.reads_test_data or is_pooled):
        raise UsageError(
            'score = "global": allowed for images, points and links, of which the server has test'
            " data",
            key="score",
        )
    if score == "reconstruction" and not kind.comparison.recall:
        raise UsageError('score = "reconstruction": allowed for links', key="score")
    if score == "personal" and not kind.has_validation:
        raise UsageError('score = "personal": allowed for data of clients', key="score")
    return score


def _alternatives(
    pairs: Sequence[str], keys: Mapping[str, Value]
) -> tuple[dict[str, list[Value]], list[str]]:
    """The keys that have several values, and all pairs, these keys with their first value; `keys`
    has the defaults, whose types the values get."""
    several: dict[str, list[Value]] = {}
    single = []
    for pair in pairs:
        key, equals, text = pair.partition("=")
        values = text.split(ALTERNATIVES)
        if len(values) > 1 and key in UNTUNED:
            raise UsageError(f"{key} = {text!r}: allowed is one value", key="alternatives")
        if len(values) > 1:
            several[key] = [read_pairs([f"{key}={value}"], keys)[key] for value in values]
        single.append(f"{key}{equals}{values[0]}")
    return several, single


def _leave_validation(settings: dict[str, Value], config: RunConfig, task: str) -> None:
    """Leave a part of each client's examples for validation if no sizes are set, and refuse sizes
    that leave none."""
    if not KINDS[task].leaves_validation and "train-size" not in settings:
        settings["train-size"] = round(1 - VALIDATION_SHARE - config.test_size, 6)
    elif config.train_size + config.test_size > 1 - 1e-9:
        raise UsageError(
            f"train-size = {config.train_size} and test-size = {config.test_size}: allowed is a sum"
            " below 1, because validation, by which configurations are chosen, gets the rest",
            key="no-validation",
        )


@dataclass(frozen=True)
class _Reader:
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
        if KINDS[self.task].leaves_validation and not row.is_one_shot:
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


def _check_name(name: str, known_names: Collection[str], what: str, key: str) -> None:
    """Refuse an unknown name, with the nearest known one.

    Raises
    ------
    ConfigError
    """
    if name not in known_names:
        near = near_names(name, known_names)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"{key}: {name!r} is not a {what}{hint}", key="unknown-name")

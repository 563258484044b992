"""Warnings of a run: why its figures may mislead, and the remedy, each in one sentence. They use
the server's information: the clients' descriptions with their classes, their replies after
training, and their confusion counts where they send them. The log has each once; summary.json and
the report have all.

Here are the warnings of keys, rounds and scores; those of the data are in `data_warnings`, those of
single clients in `client_warnings`."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from curvfed.extensions.warnings import client_warnings
from curvfed.extensions.warnings.data_warnings import data_warnings
from curvfed.server_app.answer import personal_figures, trivial_scores
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation
from curvfed.server_app.run_warnings import RunWarnings
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, PERSONAL_ACCURACY, find, words_of
from curvfed.strategies.base.score_words import FEW_TESTS, few_examples
from curvfed.strategies.config.run_config import RunConfig, defaults
from curvfed.tasks.amounts import amount
from curvfed.tasks.kinds import GLOBAL_TRIVIAL, GUESSES, KINDS, TRIVIAL_OF

LARGE_LOSS = 1e3
"""Smallest training loss that is a warning: guessing among a million classes has a loss of 14."""


class FigureWarnings(RunWarnings):
    """The warnings of a run. Those of its configuration and of the clients' data are found once;
    those of its rounds follow from its state.

    Parameters
    ----------
    config : RunConfig
    federation : Federation
    """

    logged_at_once = frozenset({"refused", "updates", "falls", "absences", "lost"})

    def __init__(self, config: RunConfig, federation: Federation) -> None:
        super().__init__(config, federation)
        self._config = config
        self._federation = federation
        self._of_start = data_warnings(config, federation)
        self._of_start |= {key: text for key, make in OF_KEYS if (text := make(config))}

    def so_far(self, state: State) -> dict[str, str]:
        """The warnings of the run so far: sentences by key."""
        texts = dict(self._of_start)
        for key, is_so, make in OF_ROUNDS:
            if is_so(state):
                texts[key] = make(self._config, self._federation, state)
        for key, has_event, make_of_clients in client_warnings.OF_CLIENTS:
            if has_event(state):
                texts[key] = make_of_clients(state, self._federation)
        return {key: text for key, text in texts.items() if text}

    def at_the_end(self, state: State) -> dict[str, str]:
        """The warnings of a run that ends: without any accuracy, with one of few test examples, or
        below the trivial answer."""
        texts = {key: make(self._config, self._federation, state) for key, make in AT_THE_END}
        return {key: text for key, text in texts.items() if text}


def _late_calibrations(config: RunConfig) -> str:
    if not config.calibration_every > config.num_rounds > 0:
        return ""
    return (
        f"calibration-every = {config.calibration_every} has no effect: the run has"
        f" {amount(config.num_rounds, 'round')}, and calibrates after the last in any case"
    )


def _long_burn_in(config: RunConfig) -> str:
    if not config.burn_in >= config.num_rounds > 0:
        return ""
    return (
        f"burn-in = {config.burn_in} covers all {amount(config.num_rounds, 'round')}: each has a"
        " tenth of learning-rate"
    )


def _zero_rate(config: RunConfig) -> str:
    if not (config.num_rounds and config.learning_rate == 0 and config.row.has_network):
        return ""
    rounds = amount(config.num_rounds, "round")
    return f"learning-rate = 0: no trained parameter of a client changes in {rounds}"


def _large_loss(config: RunConfig, federation: Federation, state: State) -> str:
    """A training loss that overflows sooner or later."""
    return (
        f"the training loss is {state.largest_loss:.3g}: the features or the steps are too"
        " large to learn from; scale the features (normalize = l2 for graphs), or lower"
        " learning-rate"
    )


@lru_cache(maxsize=8)
def _proximal(config: RunConfig, task: str) -> str:
    """A proximal term without effect if clients make one step per round; with the default
    coefficient only for methods without other keys, which are FedAvg otherwise."""
    own_terms = config.own_keys.proximal_terms()
    table = next(iter(config.row.keys), "")
    terms = config.proximal_terms() | {f"{table}.{name}": own_terms[name] for name in own_terms}
    key = next((key for key, coefficient in terms.items() if coefficient), "")
    if not key:
        return ""
    own_fields = type(config.own_keys).model_fields
    is_fedavg = bool(own_fields) and own_fields.keys() == own_terms.keys()
    if not is_fedavg and config[key] == defaults()[key]:
        return ""
    equals = f"{config.method} equals fedavg here" if is_fedavg else "the run is the same with 0"
    # the nodes of a graph are usually one batch
    smaller = " or lower batch-size" if KINDS[task].batches_training_only else ""
    return (
        f"the proximal term ({key} = {config[key]}) has no effect: every client makes one local"
        f" step per round, where its gradient is 0, so {equals}; raise local-epochs{smaller}"
    )


def _one_answer(config: RunConfig, federation: Federation, state: State) -> str:
    """Models that predict a single class."""
    return (
        "at every client that tells it the model answers a single class for all test"
        " examples, though these are of several: it knows no more than which class is"
        " frequent; more rounds or another learning-rate may help"
    )


UNMEASURED_PRIVATE = (
    "nothing measures this run: in a private run scores stay at the clients; public examples at the"
    " server (test-data) score a model that all clients share"
)


def _unmeasured(config: RunConfig, federation: Federation, state: State) -> str:
    """A run without any accuracy."""
    figures = personal_figures(state.latest, federation.descriptions, state.cohort)
    scored = state.scored.get("last") or state.scored.get("figures")
    kind = KINDS[federation.facts.task]
    if not kind.is_measured_by_figures(config):
        scored = state.scored.get("last")
    if figures[PERSONAL_ACCURACY] is not None or scored:
        return ""
    return UNMEASURED_PRIVATE if config.guard.is_private else kind.words.unscored


def _few_tests(config: RunConfig, federation: Federation, state: State) -> str:
    """The main scores of fewer than `FEW_TESTS` test examples."""
    figures = personal_figures(state.latest, federation.descriptions, state.cohort)
    counts = figures["metrics"] | state.scored.get("figures", {})
    scores = {PERSONAL_ACCURACY: figures[PERSONAL_ACCURACY]}
    scores[GLOBAL_ACCURACY] = next(iter(state.scored.get("last", [])[-1:]), None)
    texts = []
    for name, score in scores.items():
        number = counts.get(find(name).examples)
        if score is not None and number is not None and 0 < number < FEW_TESTS:
            texts.append(few_examples(words_of(name, counts), number))
    return "; ".join(texts)


def _below_trivial(config: RunConfig, federation: Federation, state: State) -> str:
    """The clients' mean score in the round of best validation, or else that of the last round or of
    the global model, if it is below that of the trivial answer. Of a run with a calibrated
    classifier, which no client scores, it is the global score."""
    metric = federation.metric
    name = TRIVIAL_OF.get(metric, "")
    trivial = trivial_scores(federation.descriptions).get(name, GUESSES.get(metric))
    latest = personal_figures(state.latest, federation.descriptions, state.cohort)
    best = state.best or latest
    score = _mean_score(best, metric)
    scored = "the clients' mean score"
    rounds = ""
    if state.best and state.best["round"] != state.round:
        rounds = (
            f" in round {state.best['round']}, that of best validation (in round {state.round},"
            f" the last: {_percent(_mean_score(latest, metric))})"
        )
    calibrated = state.scored.get("calibrated")
    if score is None or calibrated is not None:
        rounds = ""
        name = GLOBAL_TRIVIAL
        trivial = state.scored.get("figures", {}).get(name)
        score = calibrated
        if score is None:
            score = next(iter(state.scored.get("last", [])[-1:]), None)
        scored = f"the {find(GLOBAL_ACCURACY).words}"
    if trivial is None or score is None or score >= trivial:
        return ""
    # Numbers that read the same show no difference.
    if _percent(score) == _percent(trivial):
        return ""
    words = find(name).words if name else "a guess"
    remedy = KINDS[federation.facts.task].remedy_below_trivial(config)
    return (
        f"{scored}, {_percent(score)}{rounds}, is below that of the trivial answer"
        f" ({words}), {_percent(trivial)}: the model has learned less than counting shows"
        f"{'; ' if remedy else ''}{remedy}"
    )


def _mean_score(figures: Mapping[str, Any], metric: str) -> float | None:
    """The clients' mean score among personal figures."""
    score: float | None = figures["metrics"].get(metric, figures[PERSONAL_ACCURACY])
    return score


def _percent(score: float | None) -> str:
    return "unknown" if score is None else f"{100 * score:.1f}%"


Sentence = Callable[[RunConfig, Federation, State], str]
"""The sentence of a warning; "" for none."""

OF_KEYS: tuple[tuple[str, Callable[[RunConfig], str]], ...] = (
    ("calibrations", _late_calibrations),
    ("burn-in", _long_burn_in),
    ("zero-rate", _zero_rate),
)
"""The warnings of keys without effect, by key."""

OF_ROUNDS: tuple[tuple[str, Callable[[State], bool], Sentence], ...] = (
    ("loss", lambda state: state.largest_loss > LARGE_LOSS, _large_loss),
    (
        "proximal",
        lambda state: state.most_steps == 1,
        lambda config, federation, state: _proximal(config, federation.facts.task),
    ),
    ("answers", lambda state: state.one_answer, _one_answer),
)
"""The warnings of rounds: the key, whether there is one, and its sentence."""

AT_THE_END: tuple[tuple[str, Sentence], ...] = (
    ("unmeasured", _unmeasured),
    ("few-tests", _few_tests),
    ("trivial", _below_trivial),
)
"""The warnings of the scores of a run that ends, by key."""

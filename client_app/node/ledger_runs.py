"""What a node's ledger says about runs and their questions: how the node splits its data, which
configurations it has answered, and its weight in sums."""

from collections.abc import Collection, Mapping
from typing import Any

from curvfed.client_app.node.ledger_file import LedgerFile, time_now
from curvfed.client_app.node.ledger_memory import (
    CONFIGURATION,
    EXPOSURE,
    IN_SUMS,
    LIMITED,
    OPEN,
    RUN,
    SPLIT,
    WEIGHT,
    limited_name,
    run_name,
)
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.tasks.amounts import amount

RUNS_PER_DAY = 1000
"""Maximum number of runs that the node begins on a day, and of their questions: each is a line of
its ledger."""


SEED = "seed "
START = "sha256:"
"""Beginnings of the names of questions: a run's seed, and the digest of its start."""


_OTHER_EXPOSURE = {
    IN_SUMS: ("sent values of its present data in the open", "false"),
    OPEN: ("sent values of its present data in masked sums", "true"),
}
"""By the exposure in a run: what the node did before, and the `secure-sum` of such runs."""


class LedgerOfRuns(LedgerFile):
    """The lines about runs, and the rules that they decide."""

    def note_run(self, run: str, settings: Mapping[str, Any]) -> None:
        """Record a run with these settings, once.

        Raises
        ------
        ConfigError
            If the node has begun `RUNS_PER_DAY` runs today.
        """
        with self.locked() as file:
            if run_name({"run": run, **settings}) not in self.memory.runs:
                self.check_number(RUN, RUNS_PER_DAY, "runs")
                self.write(file, RUN, run=run, **settings)

    def shares(self, task: str) -> tuple[float, ...]:
        """The shares of training and test records of a task, as recorded last; empty before."""
        with self.locked():
            return tuple(self.memory.shares.get(task, ()))

    def keep_shares(self, task: str, shares: tuple[float, ...], before: tuple[float, ...]) -> None:
        """Record the shares of a task, if they are others than `before`.

        Raises
        ------
        ConfigError
            If another run has recorded others in the meantime.
        """
        with self.locked() as file:
            recorded = tuple(self.memory.shares.get(task, ()))
            if recorded not in (before, shares):
                raise ConfigError(
                    f"this node splits its own data by train-size = {recorded[0]:g} and test-size ="
                    f" {recorded[1]:g}, of a run that has just begun",
                    key="own-split",
                )
            if recorded != shares:
                self.write(file, SPLIT, task=task, shares=list(shares))

    def has_asked(self, run: str) -> bool:
        """Whether `admit` has recorded questions of a run."""
        with self.locked():
            return run in self.memory.questions

    def admit(
        self,
        run: str,
        questions: Mapping[str, str],
        configuration: str,
        limit: int,
        is_open: bool = False,
        is_sum: bool = True,
    ) -> None:
        """Record the configuration under which a run asks, before the answer leaves; once.

        Two sums over the same nodes, from the same start or data but under two configurations, can
        reveal single nodes, or single records. Beside a masked sum, open answers from its start by
        all members but one are that member's vector. So all open runs count as one configuration;
        without a masked sum they are free.

        Parameters
        ----------
        run : str
        questions : mapping of str to str
            The names of the run's questions, such as the digest of its start, each with words for
            it. Empty: the questions that the run has asked before.
        configuration : str
            Digest of everything that shapes the answer.
        limit : int
            Maximum number of configurations for each name.
        is_open : bool
            Whether updates and scores of the run leave in the open.
        is_sum : bool
            Whether this answer leaves in a sum, as counts of holders do in every run.

        Raises
        ------
        SecureSumError
        ConfigError
            If the node has recorded `RUNS_PER_DAY` questions today: a server can make up starts.
        """
        recorded = configuration if is_sum else OPEN
        own = {configuration, OPEN} if is_open else {configuration}
        with self.locked() as file:
            names = list(questions) or self.memory.questions[run]
            configurations = self.memory.configurations
            for name in names:
                asked = configurations.get(name, [])
                others = [other for other in asked if other not in own]
                if recorded not in asked and len(others) >= limit:
                    words = questions.get(name, "what this run asks")
                    text = _too_many(name, words, others, limit)
                    raise SecureSumError(text, key="configurations")
            is_known = all(recorded in configurations.get(name, []) for name in names)
            if not is_known or self.memory.questions.get(run) != names:
                self.check_number(CONFIGURATION, RUNS_PER_DAY, "questions")
                self.write(file, CONFIGURATION, run=run, questions=names, configuration=recorded)

    def keep_weight(self, data: str, weight: int, limit: int) -> int:
        """The node's largest weight in all sums of one state of its data: the one of an earlier
        sum, unless that is larger than `weight`.

        The peers' numbers of examples decide how large it may be, and no peer has to state the same
        number twice: two sums with two weights would show the node's part.

        Parameters
        ----------
        data : str
            The state of the data.
        weight : int
            As the peers' numbers allow it now.
        limit : int
            Maximum number of weights.

        Raises
        ------
        SecureSumError
        """
        with self.locked() as file:
            weights = self.memory.weights.get(data, [])
            allowed = [earlier for earlier in weights if earlier <= weight]
            if allowed:
                return max(allowed)
            if len(weights) >= limit:
                raise SecureSumError(
                    "the other members state fewer examples than in an earlier sum of this node's"
                    " present data, or its weight-share is smaller: with a smaller weight both sums"
                    " would show its part; allowed are the earlier numbers, or more than [runs]"
                    f" configurations = {limit} in this node's policy",
                    key="other-weight",
                )
            self.write(file, WEIGHT, data=data, weight=weight)
        return weight

    def admit_limited(self, kind: str, data: str, digest: str, limit: int) -> None:
        """Record a question of a kind whose number is limited, before the answer leaves; once.

        Parameters
        ----------
        kind : str
            In words, such as "models of hull".
        data : str
            The state of the data.
        digest : str
            The digest of the question.
        limit : int
            Maximum number of different questions.

        Raises
        ------
        ConfigError
        """
        with self.locked() as file:
            answered = self.memory.limited.get(limited_name(kind, data), [])
            if digest in answered:
                return
            if len(answered) >= limit:
                raise ConfigError(
                    f"this node has answered {limit} {kind} on its present data; allowed are the"
                    f" earlier ones, or more than [runs] configurations = {limit} in this node's"
                    " policy",
                    key="many-answers",
                )
            self.write(file, LIMITED, question=kind, data=data, answered=digest)

    def admit_data(self, data: str, exposure: str, limit: int, is_fixed: bool = False) -> None:
        """Record how values of one state of the data leave, before they do; once.

        Open values after a sum can show what it hides, whatever the seeds: some settings make
        networks forget their start.

        Parameters
        ----------
        data : str
            The state of the data.
        exposure : {IN_SUMS, OPEN}
        limit : int
            Below 2 values leave in the open only before the first sum.
        is_fixed : bool
            Whether the values depend on the data alone: below 2 they leave in sums, or in the open,
            and not both.

        Raises
        ------
        SecureSumError
        """
        with self.locked() as file:
            exposures = self.memory.exposures.get(data, [])
            others = [other for other in exposures if other != exposure]
            may_be_compared = others and (is_fixed or exposure not in exposures)
            if may_be_compared and limit < 2 and (is_fixed or exposure == OPEN):
                earlier, allowed = _OTHER_EXPOSURE[exposure]
                raise SecureSumError(
                    f"this node has {earlier}, and other seeds give the same or similar values;"
                    " together with this run that can reveal what a sum hides: allowed are"
                    f" secure-sum = {allowed}, or more than [runs] configurations = {limit} in"
                    " this node's policy",
                    key="other-exposure",
                )
            if exposure not in exposures:
                self.write(file, EXPOSURE, data=data, exposure=exposure)

    def is_open(self, data: str) -> bool:
        """Whether updates or scores of one state of the data have left in the open."""
        with self.locked():
            return OPEN in self.memory.exposures.get(data, [])

    def check_number(self, kind: str, limit: int, words: str) -> None:
        """Refuse another line of a kind once today's lines reach the limit."""
        if self.memory.number_on(time_now(), kind) >= limit:
            raise ConfigError(
                f"this node has begun {limit} {words} today, as many as it begins on a day (UTC)",
                key="too-many-today",
            )


def _too_many(name: str, words: str, others: Collection[str], limit: int) -> str:
    """Why a question is refused, and the ways out."""
    answers = []
    if number := len(others) - (OPEN in others):
        configurations = amount(number, "other configuration")
        answers.append(f"given masked sums from {words} under {configurations}")
    if OPEN in others:
        answers.append(f"answered in the open from {words}")
    ways = ["the same settings"]
    if name.startswith(SEED):
        ways.append("another seed")
    elif name.startswith(START):
        ways.append("another model, as this one starts alike whatever the seed")
    return (
        f"this node has {' and '.join(answers)}; together with this run that can reveal what a sum"
        f" hides: allowed are {', '.join(ways)}, or more than [runs] configurations = {limit} in"
        " this node's policy"
    )

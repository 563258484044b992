"""The clients of a run under secure sums: the server sees only sums over them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from curvfed.server_app.cohort import Answer, Cohort, Question, send_model
from curvfed.server_app.phase import Check, ClientRequest, Phase
from curvfed.server_app.reply_checks import check_masked_reply
from curvfed.server_app.run import Run, check_enough
from curvfed.server_app.secure.masked_phases import check_session, masked_phase
from curvfed.server_app.secure.secure_sum import SumsOfRun
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.masked_vector import mean_update
from curvfed.strategies.wire.exchange import sample
from curvfed.strategies.wire.messages import EVALUATE, TRAIN, Header, Parts, Reply


class MaskedCohort(Cohort):
    """The server sees one contribution, that of all clients together.

    Raises
    ------
    ConfigError
        If no secure sum over the clients is possible.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        config = run.config
        self._sums = SumsOfRun(config, config.secure)
        nodes = list(run.federation.nodes)
        first_clients = sample(nodes, config.fraction_train, config.seed, 1)
        check_session(run.header(TRAIN), first_clients, self._sums)
        check_session(run.header(EVALUATE), nodes, self._sums)

    def ask(self, question: Question) -> Answer:
        """See `Cohort`."""
        started = time.monotonic()
        model = self.run.model
        is_training = question.phase == TRAIN
        like = model.summand() if is_training else question.sums
        phase, total = masked_phase(
            partial(self._run_step, is_training),
            self.run.header(question.phase, question.round),
            question.clients,
            self._sums,
            like,
            question.bound,
        )
        if is_training:
            check_enough(phase, self.run.config.min_replies)
            total = replace(total, arrays=mean_update(total, like, model.sent_to(0)))
        return Answer(phase, {0: total}, time.monotonic() - started)

    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """All clients, if there are any to score: a sum has figures for all or for none."""
        return list(self.run.federation.nodes) if clients else []

    def _run_step(
        self,
        in_round: bool,
        header: Header,
        parts: Mapping[int, Parts],
        check: Check,
        template: Arrays | None = None,
    ) -> Phase:
        """Run a step of a secure sum: the masked phase, which has a template and is recorded by the
        caller, or a phase of keys, shares or signatures."""
        run = self.run

        def check_masked(reply: Reply) -> None:
            check_masked_reply(reply)
            check(reply)

        if template is not None:
            return send_model(run, header, parts, lambda client: template, check_masked, parts)
        started = time.monotonic()
        requests = {client: ClientRequest(parts=values) for client, values in parts.items()}
        phase = run.send(header, requests, check_masked)
        row = phase.row(run.federation) | {"seconds": time.monotonic() - started}
        run.record(phase, row, in_round=in_round)
        return phase

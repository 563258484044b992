"""The phases of a run in which the server sees only the sum of the replies: training, evaluation,
calibration."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from curvfed.server_app.answer import Answer
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure.secure_sum import Ask, secure_sum
from curvfed.server_app.secure.sums_of_run import START_ALL, SumsOfRun
from curvfed.strategies.base.one_shot import ResidueServer
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.config.masked_vector import decoded, sum_encoding, vector_length
from curvfed.strategies.config.secure_phases import Opening
from curvfed.strategies.errors import ConfigError, HullError, SecureSumError
from curvfed.strategies.privacy.noise import honest_shares
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, add
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.wire.messages import Header

log = logging.getLogger("curvfed")

T = TypeVar("T")


def masked_phase(
    ask: Ask,
    header: Header,
    clients: Sequence[int],
    sums: SumsOfRun,
    like: Arrays,
    bound: float = 0.0,
    noise: float = 0.0,
    *,
    basis: Basis,
) -> tuple[Answer, Statistics]:
    """Run a phase and sum its replies securely.

    Parameters
    ----------
    like : dict of str to array
        The names and shapes of the arrays that a client contributes; none for figures alone.
    bound : float
        Bound on the values, per example; 0 for `secure.clip`.
    noise : float
        The noise multiplier of differentially private sums; the members add more, so that enough is
        left without some of their shares.
    basis : Basis
        What each vector must be computed from.

    Returns
    -------
    answer : Answer
        With the figures of its cohort.
    total : Statistics

    Raises
    ------
    RoundError
        If fewer clients than the threshold stay to the end.
    """
    phases = []
    length = vector_length(sum(array.size for array in like.values()))
    residues = np.zeros(length, np.uint64)
    reasons = []
    excess = 0.0
    for group in _groups(header, clients, sums, 0 if sums.keys.fixed_groups else 1):
        try:
            phase, group_sum = secure_sum(
                ask,
                header,
                group,
                SUM_PRIME,
                length,
                sums,
                basis=basis,
                num_encoded=len(clients),
            )
        except SecureSumError as error:
            reasons.append(str(error))
            continue
        phases.append(phase)
        residues = add(residues, group_sum, SUM_PRIME)
        excess += _excess(header, sorted(phase.replies), sums)
    phase = _joined(header, phases, reasons, sums)
    encoding = sum_encoding(bound or sums.keys.clip, len(clients))
    total, means = decoded(residues, encoding, like)
    if share := means.get("clipped", (0.0, 0))[0]:
        log.warning(
            "%.0f%% of the updates were longer than secure.clip and were shortened to it",
            100 * share,
        )
    total = replace(total, clients=len(phase.replies), noise=noise * excess**0.5)
    return replace(phase, cohort=means), total


def _excess(header: Header, clients: list[int], sums: SumsOfRun) -> float:
    """The variance of the noise in a sum of these clients, over that of its honest shares."""
    opening = Opening(target=header.phase, modulus=SUM_PRIME, length=1, clients=clients)
    session = opening.session(header, sums.run, sums.keys, is_group=bool(sums.stated))
    return len(clients) / honest_shares(len(clients), session.needed)


def residue_phase(
    ask: Ask,
    header: Header,
    clients: Sequence[int],
    sums: SumsOfRun,
    half: ResidueServer,
    *,
    basis: Basis,
) -> tuple[Answer, Statistics]:
    """Run a phase whose replies are residues, summed and decoded by groups of clients. A group that
    fails is logged and left out for good.

    Parameters
    ----------
    basis : Basis
        What each vector must be computed from.

    Returns
    -------
    answer : Answer
    total : Statistics
        Of all groups together, with the number of groups left out, and the seconds of decoding.

    Raises
    ------
    RoundError
        If all groups fail.
    """
    client_groups = _groups(header, clients, sums, half.num_groups(len(clients)))
    phases: list[Answer] = []
    decoded_sums: list[Statistics] = []
    reasons = []
    seconds = 0.0
    for group in client_groups:
        vectors = half.vectors(len(group))
        try:
            phase, residues = secure_sum(
                ask, header, group, vectors.modulus, vectors.length, sums, basis=basis
            )
            started = time.monotonic()
            statistics = half.decode(residues, len(group))
            seconds += time.monotonic() - started
        except (SecureSumError, HullError) as error:
            reasons.append(str(error))
            continue
        phases.append(phase)
        decoded_sums.append(replace(statistics, clients=len(phase.replies)))
    phase = _joined(header, phases, reasons, sums)
    total = half.join(decoded_sums, max(map(len, client_groups)))
    costs = {"groups_left_out": len(reasons), "seconds_decoding": seconds}
    return phase, replace(total, figures={**total.figures, **costs})


def _groups(
    header: Header, clients: Sequence[int], sums: SumsOfRun, number: int
) -> list[list[int]]:
    """The clients of each sum of a phase; raises RoundError if no group is complete."""
    try:
        return sums.groups(clients, number)
    except SecureSumError as error:
        raise RoundError(f"round {header.round}, {header.phase}: {error}", key=error.kind) from None


def _joined(
    header: Header, phases: Sequence[Answer], reasons: Sequence[str], sums: SumsOfRun
) -> Answer:
    """The phases of several groups as one, without the groups that failed for these reasons.

    Raises
    ------
    RoundError
        If too few clients are left.
    """
    place = f"round {header.round}, {header.phase}"
    remedy = f"; {START_ALL}" if sums.stated else ""
    if not phases:
        raise RoundError(f"{place}: {'; '.join(reasons)}{remedy}", key="no-sum")
    for reason in reasons:
        log.warning("%s: a group of clients is left out: %s", place, reason)
    phase = replace(
        phases[0],
        replies=_all(phase.replies for phase in phases),
        reasons=_all(phase.reasons for phase in phases),
        seconds=_all(phase.seconds for phase in phases),
        bytes_down=_all(phase.bytes_down for phase in phases),
        bytes_up=_all(phase.bytes_up for phase in phases),
    )
    if reasons and len(phase.replies) < sums.run.min_replies:
        raise RoundError(
            f"{place}: {len(phase.replies)} good replies, needed are {sums.run.min_replies}"
            f" (min-replies): {'; '.join(reasons)}{remedy}",
            key="too-few-replies",
        )
    return phase


def _all(mappings: Iterable[Mapping[int, T]]) -> dict[int, T]:
    merged: dict[int, T] = {}
    for mapping in mappings:
        merged |= mapping
    return merged


def check_session(header: Header, clients: Sequence[int], sums: SumsOfRun) -> None:
    """Refuse clients that no sum is possible over, before any of them gets a request.

    Raises
    ------
    ConfigError
        If there are fewer than two, or the threshold does not fit their number.
    """
    if len(clients) == 2:
        log.warning("2 clients: each of them can compute the other's vector from the sum")
    opening = Opening(target=header.phase, modulus=SUM_PRIME, length=1, clients=list(clients))
    try:
        opening.session(header, sums.run, sums.keys, is_group=bool(sums.stated))
    except SecureSumError as error:
        raise ConfigError(
            f"secure sums of {len(clients)} clients (secure.threshold, fraction-train): {error}",
            key=error.kind,
        ) from None

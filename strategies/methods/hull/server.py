"""The server's half: it decodes the hulls, groups them, and trains a classifier on them."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.figures import HULL_COUNTS
from curvfed.strategies.base.one_shot import (
    Evaluation,
    Figures,
    Model,
    ResidueServer,
    ServerPoints,
    Setting,
)
from curvfed.strategies.base.point_classifier import (
    FALLEN,
    SMALL_CLASSES_STAY,
    VOTES,
    ClassifierServer,
    confidence,
    point_arrays,
)
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.errors import ConfigError, HullError
from curvfed.strategies.hull.classifier import (
    NONE,
    accuracy,
    cost_words,
    name_groups,
    names_by_votes,
)
from curvfed.strategies.hull.classifier_choice import key_of, kind_of
from curvfed.strategies.hull.codec import (
    DecodedHulls,
    PublicParameters,
    decode_hulls,
    without_forged,
)
from curvfed.strategies.hull.learn import (
    Learned,
    Settings,
    against_clients_hulls,
    drawn_hulls,
    drawn_true_hulls,
    learn,
)
from curvfed.strategies.methods.hull import Keys
from curvfed.strategies.methods.hull.client import HullHalf, check_hull_counts
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.messages import Description, Parts
from curvfed.tasks.amounts import amount, be

MIN_GROUP = 3
"""Minimum number of clients in a group: each of two can compute the other's vector from the sum."""

DISAGREEMENT = 0.1
"""Minimum share of drawn points with disagreeing classifiers for a warning."""


class HullServer(HullHalf, ClassifierServer, ResidueServer):
    """The server's half of `method=hull`."""

    summands = "hulls"
    file_name = "hulls.npz"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.is_dry_run = self.keys.dry_run

    def describe(self, clients: int) -> str:
        """The size of a client's message."""
        public = self.public(clients)
        form = "a sum for every bin" if public.is_dense else "power sums"
        kilobytes = public.length * 8 / 1000
        return (
            f"hulls: epsilon = {public.epsilon:g} makes {public.quantizer.num_bins:,} bins; for"
            f" {public.num_classes} classes every client sends {public.length:,} numbers modulo"
            f" {public.prime} ({kilobytes:,.1f} kB), {form}"
        )

    def check_classes(self, descriptions: Iterable[Description]) -> None:
        """Refuse classes that a sum of hulls cannot have."""
        classes = len(self.setting.class_names)
        keys = self.keys
        if classes < 2:
            raise ConfigError(
                f"classes of all clients: {classes}; at least 2 are needed", key="too-few-classes"
            )
        if keys.num_classes not in (None, classes):
            raise ConfigError(
                f"hull.num-classes = {keys.num_classes}, but the clients name {classes}; allowed"
                f" are {classes} and auto",
                key="num-classes",
            )
        names_of_clients = [
            set(description.class_names) for description in descriptions if description.class_names
        ]
        if len(names_of_clients) > 1 and sum(map(len, names_of_clients)) == classes:
            raise ConfigError(
                f"the clients' {classes} classes have no name in common; if clients use different"
                " names for the same class, give hull.num-classes",
                key="class-names",
            )
        if all(len(names) < classes for names in names_of_clients):
            log.warning(
                "no client names all %d classes; if clients use different names for the same class,"
                " give hull.num-classes",
                classes,
            )
        if keys.grouping == "kernighan-lin" and classes != 2:
            raise ConfigError(
                f'hull.grouping = "kernighan-lin" makes 2 groups, and there are {classes} classes;'
                " allowed are assignment and spectral",
                key="grouping",
            )

    def num_groups(self, clients: int) -> int:
        """`hull.groups`, each of at least `MIN_GROUP` clients."""
        number: int = self.keys.groups
        if number > 1 and clients < MIN_GROUP * number:
            raise ConfigError(
                f"hull.groups = {number}: {clients} clients can take part, and a group needs"
                f" {MIN_GROUP}; allowed are 1 to {max(clients // MIN_GROUP, 1)}",
                key="too-few-clients",
            )
        return number

    def question(self, clients: int) -> Parts:
        """The digest of the public parameters, which every client compares with its own."""
        return {"digest": self.public(clients).digest}

    def check_measured(self, figures: Figures) -> None:
        """Refuse counts that are incomplete or contradict each other; a client may send none."""
        check_hull_counts(figures)

    def measured(self, figures: Sequence[Figures]) -> Mapping[str, Any]:
        """The number of points that hulls reveal, if all clients report it."""
        if not figures or not all("points" in counts for counts in figures):
            return {}
        sums = {name: int(sum(counts[name] for counts in figures)) for name in HULL_COUNTS}
        share = sums["revealed"] / sums["points"] if sums["points"] else 0.0
        log.info(
            "%d of %d training points (%.1f%%) are vertices of hulls",
            sums["revealed"],
            sums["points"],
            100 * share,
        )
        mostly_sent = [2 * counts["revealed"] > counts["points"] for counts in figures]
        return {
            "hull_points": sums["points"],
            "hull_points_shared": sums["revealed"],
            "hull_share_revealed": share,
            "hull_points_moved": sums["moved"],
            "hull_vertices_thinned": sums["thinned"],
            "clients_mostly_sent": sum(mostly_sent),
        }

    def decode(self, residues: NDArray[np.uint64], clients: int) -> Statistics:
        """The hulls of a group, without those of clients that sent no hull."""
        public = self.public(clients)
        hulls, refused = without_forged(decode_hulls(residues, public), public)
        return Statistics(_hulls_as_arrays(hulls), figures={"clients_refused": refused})

    def join(self, groups: Sequence[Statistics], group_size: int) -> Statistics:
        """The hulls of all groups; anonymous clients are numbered from 0 over all groups."""
        by_client = [_hulls_in(group).by_client() for group in groups]
        hulls = DecodedHulls.of(itertools.chain.from_iterable(by_client))
        decoded = sum(map(len, by_client))
        refused = int(sum(group.figures["clients_refused"] for group in groups))
        summed = sum(group.clients for group in groups)
        if refused:
            log.warning(
                "%s %s left out: no convex hull came, as from honest clients; check the nodes'"
                " versions and who runs them",
                amount(refused, "client"),
                be(refused),
            )
        if missing := summed - decoded - refused:
            log.warning(
                "the sum is of %s, but lacks hulls of %d: none were sent, or two clients used one"
                " slot",
                amount(summed, "client"),
                missing,
            )
        return Statistics(
            _hulls_as_arrays(hulls) | {"group_size": np.array(group_size)},
            figures={"clients_decoded": decoded, "clients_refused": refused},
            clients=summed,
        )

    def learn(self, total: Statistics) -> Model:
        """Group the hulls and train on them, without labels."""
        public = self.public(int(total.arrays["group_size"]))
        keys = self.keys
        hulls = _hulls_in(total)
        num_groups = self._num_classes_with_hulls(hulls, public)
        needed = max(num_groups, 2)
        if num_groups < needed or len(hulls.bins) < needed:
            raise HullError(
                f"{len(hulls.bins)} hulls of {num_groups} of {public.num_classes} classes; needed"
                f" are {needed} hulls, of different classes: {SMALL_CLASSES_STAY}",
                key="too-few-hulls",
            )
        learned = learn(hulls, public, learn_settings(keys, self.setting.config.seed), num_groups)
        log.info(
            "%d hulls of %d clients in %d groups; classifier: %s%s",
            len(learned.hulls.bins),
            len(np.unique(learned.hulls.clients)),
            learned.num_groups,
            key_of(learned.classifier.kind),
            cost_words(learned.classifier.kind, learned.classifier.c),
        )
        figures = _figures(learned, public, keys)
        figures["classes_left_out"] = public.num_classes - num_groups
        return Model(learned.classifier.arrays(), figures, (learned, public))

    def _num_classes_with_hulls(self, hulls: DecodedHulls, public: PublicParameters) -> int:
        """All classes, but those that too few members of the sum have, where these are counted; a
        client has at most one hull of each."""
        if self.num_shared is None:
            return public.num_classes
        _, sizes = np.unique(hulls.clients, return_counts=True)
        return max(self.num_shared, int(sizes.max(initial=0)))

    def evaluate(
        self, model: Model, sums: Arrays, points: ServerPoints, summed: Sequence[int]
    ) -> Evaluation:
        """Names of the groups by the server's test points, or else by the clients' votes, and in a
        simulation the accuracy of the groups."""
        learned: Learned
        public: PublicParameters
        learned, public = model.details
        classes = self.setting.class_names
        figures: dict[str, Any] = {"clients_fallen": int(sums[FALLEN][0])}
        score = None
        predicted = np.zeros(0, np.int64)
        names = ("",) * learned.num_groups
        if points.clients and points.clients.keys() >= set(summed):
            clients = [points.clients[partition] for partition in summed]
            figures |= against_clients_hulls(learned, clients, public)
        if points.test is not None:
            test = points.test
            groups = learned.classifier.predict(test.points)
            figures |= confidence(learned.classifier, test.points)
            if len(test.points):
                figures["unknown"] = float(learned.classifier.unknown(test.points).mean())
            numbers = name_groups(groups, test.labels, learned.num_groups, len(test.class_names))
            score = accuracy(groups, test.labels, numbers)
            predicted = numbers[groups]
            names = tuple("" if number == NONE else test.class_names[number] for number in numbers)
        if not all(names):  # no test points, or none of a class
            is_free = np.outer([not name for name in names], ~np.isin(classes, names))
            voted, figures["votes_agreed"] = names_by_votes(sums[VOTES] * is_free, classes)
            names = tuple(name or vote for name, vote in zip(names, voted, strict=True))
        if learned.outlying.size:
            figures["outlying_hulls"] = learned.outlying_hulls(names)
        arrays = drawn_hulls(learned, public) | {"names": np.array(names)}
        arrays |= point_arrays(points, predicted)
        if points.pooled is not None:
            arrays |= drawn_true_hulls(points.clients.values(), public)
        arrays |= {"votes": sums[VOTES], "voted_names": np.array(classes)}
        return Evaluation(figures, score, names, arrays)

    def warnings(self, metrics: Mapping[str, Any]) -> dict[str, str]:
        """Clients that sent most of their points, outlying hulls, refused hulls, and disagreeing
        classifiers."""
        exposed = metrics.get("clients_mostly_sent", 0)
        outliers = metrics.get("clients_odd", 0)
        refused = metrics.get("clients_refused", 0)
        texts = {}
        if left_out := metrics.get("classes_left_out", 0):
            texts["classes-left-out"] = (
                f"{amount(left_out, 'class')} without hulls, because too few clients have enough"
                " points of them: the classifier never answers these classes"
            )
        if exposed:
            texts["sent"] = (
                f"{amount(exposed, 'client')} sent most of their training points, as bins: nearly"
                " all of so few points are vertices of hulls, which hide nothing of them; a larger"
                " hull.epsilon or a lower hull.cap sends fewer"
            )
        turned = metrics.get("clients_turned", 0)
        clients = metrics.get("clients_decoded", outliers)
        detail = (
            f" (outlying hulls by class: {metrics.get('outlying_hulls')}; trained with them, the"
            f" classifier puts {metrics.get('outliers_effect', 0):.1%} of the points drawn within"
            " the others in another group). hull.classifier=auto leaves them out. The sum does not"
            " say whose they are: let every site check its labels and its embedding"
        )
        if turned:
            texts["turned"] = (
                f"{turned} of {clients} clients have hulls that fit the others' only after a"
                f" rotation or reflection of the disc, as of another embedding{detail}"
            )
        if outliers > turned:
            texts["odd"] = (
                f"{outliers - turned} of {clients} clients are outliers: their hulls lie where"
                " other clients have other classes, as with shuffled labels, another embedding or"
                f" made-up points{detail}"
            )
        if refused:
            texts["refused"] = (
                f"{amount(refused, 'client')} sent no convex hull and {be(refused)} left out; check"
                " the nodes' versions and who runs them"
            )
        texts |= super().warnings(metrics)
        disagreement = metrics.get("classifiers_disagree", 0)
        if disagreement >= DISAGREEMENT:
            shares = [
                100 * share for name, share in metrics.items() if name.startswith("left_out_")
            ]
            texts["classifiers"] = (
                f"the kinds of classifiers disagree on {disagreement:.0%} of the points drawn"
                f" within hulls of left-out clients, and put {min(shares):.0f} to"
                f" {max(shares):.0f}% of them in their group: hulls alone do not say for sure"
                " which kind is best; on test points (test-data), compare the values of"
                " hull.classifier"
            )
        return texts


def learn_settings(keys: Keys, seed: int) -> Settings:
    """The settings of the server's learning from hulls."""
    kind = kind_of(keys.classifier, keys.svm, "auto")
    return Settings(keys.grouping, kind, keys.svm == "hard", keys.c or 0.0, seed)


def _hulls_as_arrays(hulls: DecodedHulls) -> Arrays:
    bins = np.concatenate([np.zeros(0, np.uint64), *hulls.bins])
    sizes = np.array(list(map(len, hulls.bins)), np.int64)
    return {"bins": bins, "sizes": sizes, "clients": hulls.clients}


def _hulls_in(total: Statistics) -> DecodedHulls:
    arrays = total.arrays
    bins = np.split(arrays["bins"], np.cumsum(arrays["sizes"]))[:-1]
    return DecodedHulls(bins, arrays["clients"])


def _figures(learned: Learned, public: PublicParameters, keys: Keys) -> dict[str, Any]:
    """The figures of the hulls and the classifier."""
    sizes = [len(bins) for bins in learned.hulls.bins]
    classifier = learned.classifier
    has_cost = np.isfinite(classifier.c) or keys.svm == "hard"
    cost = classifier.c if has_cost else None
    figures: dict[str, Any] = {
        "hull_vertices_mean": float(np.mean(sizes)),
        "hull_vertices_max": max(sizes),
        "hull_count": len(sizes),
        "hull_groups": len(np.unique(learned.groups)),
        "hull_bins": public.quantizer.num_bins,
        "hull_prime": public.prime,
        "hull_symbols": public.length,
        "hull_epsilon": public.epsilon,
        "svm_c": cost,
        "classifier": key_of(classifier.kind),
        "classifier_temperature": classifier.temperature,
        "clients_odd": len(learned.outlying),
    }
    if learned.outlying.size:
        figures["clients_turned"] = len(learned.turned)
        figures["outliers_effect"] = learned.effect
    if learned.comparison.choices:
        for choice in learned.comparison.choices:
            figures[f"left_out_{choice.kind}"] = choice.share
        figures["classifiers_disagree"] = learned.comparison.disagreement
    return figures

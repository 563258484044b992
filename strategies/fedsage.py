"""FedSage+'s server (Zhang et al., NeurIPS 2021): carries the generators from client to client, averages the classifier."""

from dataclasses import replace

import numpy as np

from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.average import Arrays, Update, check_names
from curvfed.strategies.graph_baseline_tables import FedSage as Keys
from curvfed.tasks.graphs.neighbours import FeatureGenerator, GeneratorSpec

PACKAGE, GRADIENT = "package/", "gradient/"
"""What the names begin with of what a client tells others, and of what others answer. On the way down a package's name
goes on with its client's number, on the way up a gradient's."""

REPRESENTATIONS, MISSING = "representations", "missing"
"""In a package, beside fGen's parameters: what fGen is asked with, and how many neighbours each has."""


def package(arrays: Arrays, keys: Keys) -> Arrays:
    """A package without content: names, shapes and dtypes, for nodes of as many features as the shared model takes."""
    weight = arrays["first.weight"]
    spec = GeneratorSpec(weight.shape[1], keys.width, keys.neighbours, 0.0)
    found = {
        name: np.zeros(tuple(tensor.shape), weight.dtype) for name, tensor in FeatureGenerator(spec).named_parameters()
    }
    return found | {
        REPRESENTATIONS: np.zeros((keys.sample, keys.width), weight.dtype),
        MISSING: np.zeros(keys.sample, weight.dtype),
    }


class FedSage(Average):
    """FedAvg of the classifier; in the first rounds clients also learn what other clients' nodes are like.

    In a round of these a client is sent the package of every other one, its fGen and some inputs of it, and the gradient of
    the others' losses on its own fGen, the mean of those who answered. It replies with a new package and its gradients for
    the packages that it was sent (`curvfed.client_app.learners.fedsage`). So a gradient is a round old when it is used:
    it was taken at the fGen that the client ended the round before the last with. In the paper clients ask each other
    in every step, and add the gradients up; their mean does not grow with the number of clients.

    Clients without examples are in nobody's sums, and have no package. After the last of these rounds the server forgets
    packages and gradients.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    template : dict of str to array
        As `package` makes it.
    rounds : int
        How many rounds train the generators.
    """

    def __init__(self, arrays: Arrays, template: Arrays, rounds: int) -> None:
        super().__init__(arrays)
        self._template, self._left = template, rounds
        self._still = {name: array for name, array in template.items() if name not in (REPRESENTATIONS, MISSING)}
        self._packages: dict[int, Arrays] = {}
        self._gradients: dict[int, Arrays] = {}

    def sent_to(self, partition: int) -> Arrays:
        """The average; while generators are trained "gradient/name", at first 0, and "package/partition/name" too."""
        if not self._left:
            return self._arrays
        gradient = self._gradients.get(partition, self._still)
        return self._arrays | _named(GRADIENT, gradient) | self._packages_for(partition)

    def _packages_for(self, partition: int) -> Arrays:
        found: Arrays = {}
        for other, content in self._packages.items():
            if other != partition:
                found |= _named(f"{PACKAGE}{other}/", content)
        return found

    def awaited(self, partition: int) -> Arrays:
        """The classifier; while generators are trained "package/name", and "gradient/partition/name" of every package."""
        if not self._left:
            return self._arrays
        found = self._arrays | _named(PACKAGE, self._template)
        for other in self._packages.keys() - {partition}:
            found |= _named(f"{GRADIENT}{other}/", self._still)
        return found

    def global_model(self) -> Arrays:
        """The average alone."""
        return self._arrays

    def aggregate(self, replies: Replies) -> None:
        """Average the classifier; sort packages and gradients."""
        for partition, update in replies.items():
            check_names(update.arrays, self.awaited(partition))
        models = {
            p: replace(one, arrays={name: one.arrays[name] for name in self._arrays}) for p, one in replies.items()
        }
        super().aggregate(models)
        if self._left:
            learnt = {partition: update for partition, update in replies.items() if update.examples}
            self._gradients = {other: self._mean(other, learnt) for other in sorted(self._packages)}
            for partition, update in learnt.items():
                self._packages[partition] = {name: update.arrays[PACKAGE + name] for name in self._template}
            self._packages = dict(sorted(self._packages.items()))
            self._left -= 1
        if not self._left:
            self._packages, self._gradients = {}, {}

    def _mean(self, partition: int, replies: dict[int, Update]) -> Arrays:
        """Of what others answered to this client's package; 0 where nobody did."""
        answers = [update.arrays for other, update in replies.items() if other != partition]
        found: Arrays = {}
        for name, still in self._still.items():
            total = np.zeros(still.shape)
            for arrays in answers:
                total += arrays[f"{GRADIENT}{partition}/{name}"]
            found[name] = (total / max(len(answers), 1)).astype(still.dtype)
        return found

    def state(self) -> Arrays:
        """The average, the rounds left, and "package/partition/name" and "gradient/partition/name"."""
        found = self._arrays | {"rounds-left": np.array(self._left)}
        for prefix, known in ((PACKAGE, self._packages), (GRADIENT, self._gradients)):
            for partition, content in known.items():
                found |= _named(f"{prefix}{partition}/", content)
        return found

    def load(self, state: Arrays) -> None:
        """Go on from a stored average, packages and gradients."""
        self._left = int(state["rounds-left"])
        self._packages, self._gradients = {}, {}
        for key, array in state.items():
            kind, _, rest = key.partition("/")
            if kind in ("package", "gradient"):
                partition, _, name = rest.partition("/")
                known = self._packages if kind == "package" else self._gradients
                known.setdefault(int(partition), {})[name] = array
        self._arrays = {name: state[name] for name in self._arrays}


def _named(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}

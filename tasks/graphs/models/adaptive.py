"""A client's own network on top of a shared one that is frozen (AdaFGL, Li et al., ICDE 2024, stage
2).

The shared network, the extractor, predicts P̂ for all nodes. P̂ says which nodes are alike, and two
modules use it: one for graphs whose neighbours have the same class, one for others. The homophily
confidence score, which is computed from labels alone, weighs the two modules. Matrices are dense, N
× N.

This follows the authors' code in OpenFGL, apart from what `signed_weights` and
`homophily_confidence` say.
"""

import itertools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.dropout import dropout
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.label_propagation import propagate
from curvfed.tasks.graphs.model_spec import start_all

LABEL_STEPS = 10
LABEL_KEPT = 0.5
"""Label propagations for the confidence score, and κ, what a node keeps of its own label, as in the
authors' code."""

UNKNOWN = 0.5
"""The confidence score where there are too few labels to measure it: both modules get the same
weight."""

ALIKE = 0.999
"""The cosine above which two nodes are predicted alike, as in the authors' code."""


@dataclass(frozen=True)
class AdaptiveSpec:
    """The settings of the network, apart from the extractor.

    Attributes
    ----------
    num_features, num_classes, width : int
    dropout : float
    steps : int
        k, how often features are propagated.
    alpha : float
        α, the weight of the edges where features are propagated; pairs that are predicted alike
        have the rest.
    beta : float
        β, the weight of these pairs in the signed weights; what the module learns has the rest.
    """

    num_features: int
    num_classes: int
    width: int
    dropout: float
    steps: int
    alpha: float
    beta: float


@dataclass(frozen=True, eq=False)
class _Constants:
    """What is computed once per graph: P̂ (N, C), who is predicted alike (N, N), and the smoothed X
    (N, (k + 1) F)."""

    inputs: GraphInputs
    predictions: Tensor
    alike: Tensor
    smoothed: Tensor


class AdaptiveNet(nn.Module):
    """Both modules and their mixture.

    Homophilous: H̃ = MLP of the smoothed features, and Ŷ_ho = (softmax(H̃) + softmax(P̂))/2; P̂ are
    shares already, so that the second half is nearly even. Heterophilous: H_s = another MLP of the
    smoothed features, H_f = MLP of a node's own, H_m = `passed_on` of a third MLP of the smoothed
    ones, Ŷ_he = (softmax(H_s) + softmax(H_f) + softmax(H_m))/3. Together Ŷ = s Ŷ_ho + (1 − s) Ŷ_he,
    s the confidence score. The parameters, the extractor's among them, are all that the network
    needs, so that it can be applied to any graph.

    Parameters
    ----------
    extractor : Module
        From `GraphInputs` to logits. It is frozen, its dropout off.
    spec : AdaptiveSpec
    confidence : float
        s, in [0, 1].
    """

    def __init__(self, extractor: nn.Module, spec: AdaptiveSpec, confidence: float) -> None:
        super().__init__()
        self.spec = spec
        self.extractor = extractor.requires_grad_(False).eval()
        smoothed = (spec.steps + 1) * spec.num_features
        self.smooth = _MLP(smoothed, spec, hidden=1)
        self.deep = _MLP(smoothed, spec, hidden=2)
        self.plain = _MLP(spec.num_features, spec, hidden=2)
        self.passing = _MLP(smoothed, spec, hidden=2)
        self.confidence = nn.Parameter(torch.tensor(confidence), requires_grad=False)
        self._known: _Constants | None = None

    def train(self, mode: bool = True) -> "AdaptiveNet":
        """Set the mode of everything but the extractor."""
        super().train(mode)
        self.extractor.eval()
        return self

    def parts(self, inputs: GraphInputs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """H̃, H_s, H_f and H_m, each (N, C), logits."""
        known = self._constants(inputs)
        logits = self.passing(known.smoothed)
        passed = passed_on(
            signed_weights(known.alike, logits, self.spec.beta), logits, self.passing.slope
        )
        return (
            self.smooth(known.smoothed),
            self.deep(known.smoothed),
            self.plain(inputs.dense),
            passed,
        )

    def loss(self, inputs: GraphInputs, labels: Tensor, rows: Tensor) -> Tensor:
        """The sum of the parts' cross-entropies on the labelled rows, and the mean square of H̃ −
        P̂ over all nodes.

        The last is the knowledge-preserving loss, of logits and shares as in the authors' code.
        """
        parts = self.parts(inputs)
        told = torch.stack([F.cross_entropy(part[rows], labels) for part in parts]).sum()
        return told + F.mse_loss(parts[0], self._constants(inputs).predictions)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """log Ŷ, (N, C): logits whose softmax is Ŷ."""
        shares = [
            part.softmax(dim=1)
            for part in (*self.parts(inputs), self._constants(inputs).predictions)
        ]
        smooth, deep, plain, passed, told = shares
        mixed = torch.lerp((deep + plain + passed) / 3, (smooth + told) / 2, self.confidence)
        return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()

    def _constants(self, inputs: GraphInputs) -> _Constants:
        """The constants of a graph: the extractor does not change."""
        if self._known is None or self._known.inputs is not inputs:
            with torch.inference_mode(False), torch.no_grad():
                predictions = self.extractor(inputs).softmax(dim=1)
                alike = predicted_alike(predictions)
                smoothed = smoothed_features(alike, inputs, self.spec.alpha, self.spec.steps)
                self._known = _Constants(inputs, predictions, alike, smoothed)
        return self._known


class _MLP(nn.Module):
    """Linear layers to logits, PReLU and dropout between them; weights start as large as the
    authors'."""

    def __init__(self, num_in: int, spec: AdaptiveSpec, hidden: int) -> None:
        super().__init__()
        layers = [
            nn.Linear(*pair)
            for pair in itertools.pairwise([num_in, *[spec.width] * hidden, spec.num_classes])
        ]
        start_all(*layers, gain=math.sqrt(2))
        self.layers = nn.ModuleList(layers)
        self.slope = nn.PReLU()
        self.dropout = spec.dropout

    def forward(self, x: Tensor) -> Tensor:
        """(N, num_in) -> (N, C)."""
        first, *rest = self.layers
        x = first(x)
        for layer in rest:
            x = layer(dropout(self.slope(x), self.dropout, self.training))
        return x


def predicted_alike(predictions: Tensor) -> Tensor:
    """1 where the rows of softmax(P̂) have a cosine above `ALIKE`, else 0, and 0 where i = j.

    The paper has the cosines themselves, of P̂. The authors' code takes the softmax of shares and
    rounds; nodes are alike if they have the same class and like shares of it.

    Parameters
    ----------
    predictions : Tensor, (N, C)
        P̂, rows that sum to 1.

    Returns
    -------
    Tensor, (N, N)
        Symmetric.
    """
    rows = F.normalize(predictions.softmax(dim=1), dim=1)
    return (rows @ rows.t() > ALIKE).to(rows.dtype).fill_diagonal_(0)


def smoothed_features(alike: Tensor, inputs: GraphInputs, alpha: float, steps: int) -> Tensor:
    """X, S X, …, Sᵏ X side by side, S = D^-1/2 (P + I) D^-1/2, P = α A + (1 − α) times who is
    alike.

    Parameters
    ----------
    alike : Tensor, (N, N)
    inputs : GraphInputs
        Of the features X, (N, F), and the edges A.
    alpha : float
        In [0, 1].
    steps : int
        k.

    Returns
    -------
    Tensor, (N, (k + 1) F)
    """
    propagation = (1 - alpha) * alike
    row, column = inputs.edge_index
    propagation[row, column] += alpha
    scale = (propagation.sum(dim=1, keepdim=True) + 1).rsqrt()
    found = [inputs.dense]
    for _ in range(steps):
        scaled = scale * found[-1]
        found.append(scale * (propagation @ scaled + scaled))
    return torch.cat(found, dim=1)


def signed_weights(alike: Tensor, logits: Tensor, beta: float) -> Tensor:
    """The weight of each node for each other, in [-1, 1], and 1 for itself.

    R = β times who is alike + (1 − β) cos(softmax(H)), 0 where i = j. Entries above the mean of R
    are scaled to (0, 1], entries below to [-1, 0): a similar node counts, a dissimilar one counts
    with the opposite sign. The paper leaves this function open. The authors' code scales the upper
    half in the same way; its lower half runs from 0 for the least similar to -1 at the mean, where
    it jumps, which is taken for an error. On Cora both score the same.

    Parameters
    ----------
    alike : Tensor, (N, N)
    logits : Tensor, (N, C)
        H.
    beta : float

    Returns
    -------
    Tensor, (N, N)
    """
    rows = F.normalize(logits.softmax(dim=1), dim=1)
    loops = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    similar = (beta * alike + (1 - beta) * (rows @ rows.t())).masked_fill(loops, 0)
    mean = similar.mean()
    tiny = torch.finfo(similar.dtype).tiny
    above = (similar.max() - mean).clamp_min(tiny)
    below = mean.clamp_min(tiny)
    centred = similar - mean
    return torch.where(centred > 0, centred / above, centred / below).masked_fill(loops, 1)


def passed_on(weights: Tensor, logits: Tensor, sign: nn.Module) -> Tensor:
    """H_m = (H + softmax(σ(W) H) − softmax(σ(−W) H))/2, σ a PReLU: messages with positive weights
    less those with negative.

    One pass, as in the authors' code; the softmax and the half keep sums over all nodes bounded.
    """
    heard, opposed = (F.softmax(sign(one) @ logits, dim=1) for one in (weights, -weights))
    return (logits + heard - opposed) / 2


def homophily_confidence(
    inputs: GraphInputs, rows: Tensor, labels: Tensor, num_classes: int
) -> float:
    """The homophily confidence score: the share of masked training nodes whose class their
    neighbourhoods predict.

    Half of the training nodes, drawn from the generator that dropout draws from, are masked. The
    labels of the others are propagated, Y ← κ Y₀ + (1 − κ) Â Y, Â the normalised adjacency with
    self-loops. Rows of Y₀ without a label are 0; the authors' 1/C would add the same to all
    classes. A node that no label reaches counts as wrong; there it has the first class. Their code
    adds its label to a known node a second time in each step, which weighs nodes with known labels
    more.

    Parameters
    ----------
    inputs : GraphInputs
    rows : Tensor, (n,), int64
        The training nodes.
    labels : Tensor, (n,), int64
    num_classes : int

    Returns
    -------
    float
        In [0, 1]; `UNKNOWN` for fewer than two training nodes.
    """
    if len(rows) < 2:
        return UNKNOWN
    order = torch.randperm(len(rows), device=rows.device)
    told = order[: len(rows) // 2]
    masked = order[len(rows) // 2 :]
    given = torch.zeros(
        inputs.num_nodes, num_classes, dtype=inputs.features.matrix.dtype, device=rows.device
    )
    given[rows[told], labels[told]] = 1
    found = propagate(given, inputs.adjacency, LABEL_STEPS, LABEL_KEPT)
    largest = found[rows[masked]].max(dim=1)
    return float(((largest.indices == labels[masked]) & (largest.values > 0)).double().mean())

"""A client's own network on top of a shared one that is frozen (AdaFGL, Li et al., ICDE 2024, stage 2).

The shared network, the extractor, predicts P̂ for all nodes. P̂ gives a matrix by which messages are passed between nodes,
and two modules use it: one for graphs whose neighbours have the same class, one for others. The homophily confidence score,
which is computed from labels alone, weighs the two modules. Matrices are dense, N × N.

This follows the authors' code. What is called the paper's is known from that code, and was not checked against the paper.
"""

import itertools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.dropout import dropout
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.label_propagation import propagate
from curvfed.tasks.graphs.models.model_spec import start_all

LABEL_STEPS, LABEL_KEPT = 10, 0.5
"""Label propagations for the confidence score, and κ, what a node keeps of its own label, as in the authors' code."""

UNKNOWN = 0.5
"""The confidence score where there are too few labels to measure it: both modules get the same weight."""


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
        α, the weight of the edges in the propagation matrix; the predictions have the rest.
    beta : float
        β, the weight of that matrix in the signed weights; what the module learns has the rest.
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
    """What is computed once per graph: P̂ (N, C), P̃ (N, N), and the smoothed X (N, (k + 1) F)."""

    inputs: GraphInputs
    predictions: Tensor
    propagation: Tensor
    smoothed: Tensor


class AdaptiveNet(nn.Module):
    """Both modules and their mixture.

    Homophilous: H̃ = MLP of the smoothed features, and Ŷ_ho = (softmax(H̃) + P̂)/2. Heterophilous: H_f = MLP of a node's own
    features, H_m = `passed_on` of another MLP of the smoothed ones, Ŷ_he = (softmax(H̃) + softmax(H_f) + softmax(H_m))/3.
    Together Ŷ = s Ŷ_ho + (1 − s) Ŷ_he, s the confidence score. The parameters, the extractor's among them, are all that the
    network needs, so that it can be applied to any graph.

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
        self.plain = _MLP(spec.num_features, spec, hidden=2)
        self.passing = _MLP(smoothed, spec, hidden=2)
        self.sign = nn.PReLU()
        self.confidence = nn.Parameter(torch.tensor(confidence), requires_grad=False)
        self._known: _Constants | None = None

    def train(self, mode: bool = True) -> "AdaptiveNet":
        """Set the mode of everything but the extractor."""
        super().train(mode)
        self.extractor.eval()
        return self

    def parts(self, inputs: GraphInputs) -> tuple[Tensor, Tensor, Tensor]:
        """H̃, H_f and H_m, each (N, C), logits."""
        known = self._constants(inputs)
        logits = self.passing(known.smoothed)
        weights = signed_weights(known.propagation, logits, self.spec.beta)
        return self.smooth(known.smoothed), self.plain(inputs.dense), passed_on(weights, logits, self.sign)

    def loss(self, inputs: GraphInputs, labels: Tensor, rows: Tensor) -> Tensor:
        """The mixture's cross-entropy on the labelled rows, and the mean square of softmax(H̃) − P̂ over all nodes.

        The second is the knowledge-preserving loss. The authors' code sums the cross-entropies of the parts, and takes
        H̃ − P̂ without the softmax; where P̂ is poor, H̃ then learns little else.
        """
        log_mixed, smooth, predictions = self._mixed(inputs)
        return F.nll_loss(log_mixed[rows], labels) + F.mse_loss(smooth, predictions)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """log Ŷ, (N, C): logits whose softmax is Ŷ."""
        return self._mixed(inputs)[0]

    def _mixed(self, inputs: GraphInputs) -> tuple[Tensor, Tensor, Tensor]:
        """log Ŷ, softmax(H̃) and P̂, each (N, C)."""
        predictions = self._constants(inputs).predictions
        smooth, plain, passing = (part.softmax(dim=1) for part in self.parts(inputs))
        homophilous = (smooth + predictions) / 2
        heterophilous = (smooth + plain + passing) / 3
        mixed = torch.lerp(heterophilous, homophilous, self.confidence)
        return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log(), smooth, predictions

    def _constants(self, inputs: GraphInputs) -> _Constants:
        """The constants of a graph: the extractor does not change."""
        if self._known is None or self._known.inputs is not inputs:
            with torch.inference_mode(False), torch.no_grad():
                predictions = self.extractor(inputs).softmax(dim=1)
                propagation = propagation_matrix(predictions, inputs, self.spec.alpha)
                smoothed = smoothed_features(propagation, inputs.dense, self.spec.steps)
                self._known = _Constants(inputs, predictions, propagation, smoothed)
        return self._known


class _MLP(nn.Module):
    """Linear layers to logits, PReLU and dropout between them, as in the authors' code."""

    def __init__(self, num_in: int, spec: AdaptiveSpec, hidden: int) -> None:
        super().__init__()
        widths = [num_in, *[spec.width] * hidden, spec.num_classes]
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(widths)]
        start_all(*layers)
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


def propagation_matrix(predictions: Tensor, inputs: GraphInputs, alpha: float) -> Tensor:
    """P̃ of the paper's optimised propagation: P = α A + (1 − α) P̂ P̂ᵀ, P̃_ij = P_ij/√(P_ii P_jj), and 0 where i = j.

    A has self-loops here, so that no P_ii is 0 and no P̃_ij above 1; at α = 1 P̃ are the edges, at 0 the cosines of rows.

    Parameters
    ----------
    predictions : Tensor, (N, C)
        P̂, rows that sum to 1.
    inputs : GraphInputs
    alpha : float
        In [0, 1].

    Returns
    -------
    Tensor, (N, N)
        In [0, 1], symmetric.
    """
    mixed = (1 - alpha) * (predictions @ predictions.t())
    row, column = inputs.edge_index
    mixed[row, column] += alpha
    mixed.diagonal().add_(alpha)
    length = mixed.diagonal().sqrt()
    scaled = mixed / length / length[:, None]
    return scaled.fill_diagonal_(0)


def smoothed_features(propagation: Tensor, features: Tensor, steps: int) -> Tensor:
    """X, S X, …, Sᵏ X side by side, S = D^-1/2 (P̃ + I) D^-1/2.

    The paper multiplies by P̃ alone; rows of a dense P̃ sum to as much as N, and the authors' code has S.

    Parameters
    ----------
    propagation : Tensor, (N, N)
    features : Tensor, (N, F)
    steps : int
        k.

    Returns
    -------
    Tensor, (N, (k + 1) F)
    """
    scale = (propagation.sum(dim=1, keepdim=True) + 1).rsqrt()
    found = [features]
    for _ in range(steps):
        scaled = scale * found[-1]
        found.append(scale * (propagation @ scaled + scaled))
    return torch.cat(found, dim=1)


def signed_weights(propagation: Tensor, logits: Tensor, beta: float) -> Tensor:
    """The weight of each node for each other, in [-1, 1], and 1 for itself.

    R = β P̃ + (1 − β) cos(softmax(H)), 0 where i = j. Entries above the mean of R are scaled to (0, 1], entries below to
    [-1, 0): a similar node counts, a dissimilar one counts with the opposite sign. The paper leaves this function open.
    The authors' code scales the upper half in the same way; its lower half runs from 0 for the least similar to -1 at the
    mean, where it jumps, which is taken for an error.

    Parameters
    ----------
    propagation : Tensor, (N, N)
        P̃.
    logits : Tensor, (N, C)
        H.
    beta : float

    Returns
    -------
    Tensor, (N, N)
    """
    rows = F.normalize(logits.softmax(dim=1), dim=1)
    loops = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    similar = (beta * propagation + (1 - beta) * (rows @ rows.t())).masked_fill(loops, 0)
    mean, tiny = similar.mean(), torch.finfo(similar.dtype).tiny
    above, below = (similar.max() - mean).clamp_min(tiny), mean.clamp_min(tiny)
    centred = similar - mean
    return torch.where(centred > 0, centred / above, centred / below).masked_fill(loops, 1)


def passed_on(weights: Tensor, logits: Tensor, sign: nn.Module) -> Tensor:
    """H_m = (H + softmax(σ(W) H) − softmax(σ(−W) H))/2, σ a PReLU: messages with positive weights less those with negative.

    One pass, as in the authors' code; the softmax and the half keep sums over all nodes bounded.
    """
    heard, opposed = (F.softmax(sign(one) @ logits, dim=1) for one in (weights, -weights))
    return (logits + heard - opposed) / 2


def homophily_confidence(inputs: GraphInputs, rows: Tensor, labels: Tensor, num_classes: int) -> float:
    """The homophily confidence score: the share of masked training nodes whose class their neighbourhoods predict.

    Half of the training nodes, drawn from the generator that dropout draws from, are masked. The labels of the others are
    propagated, Y ← κ Y₀ + (1 − κ) Â Y, Â the normalised adjacency with self-loops. Rows of Y₀ without a label are 0; the
    paper's 1/C would add the same to all classes. A node that no label reaches counts as wrong.

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
    told, masked = order[: len(rows) // 2], order[len(rows) // 2 :]
    given = torch.zeros(inputs.num_nodes, num_classes, dtype=inputs.features.matrix.dtype, device=rows.device)
    given[rows[told], labels[told]] = 1
    found = propagate(given, inputs.adjacency, LABEL_STEPS, LABEL_KEPT)
    largest = found[rows[masked]].max(dim=1)
    return float(((largest.indices == labels[masked]) & (largest.values > 0)).double().mean())

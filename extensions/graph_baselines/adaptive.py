"""A client's personal network on top of a frozen shared network (AdaFGL, Li et al., ICDE 2024,
stage 2).

The shared network, the extractor, predicts P̂ for all nodes. P̂ determines which nodes are alike,
for two modules: one for homophilous graphs, one for heterophilous graphs. The homophily confidence
score, computed only from labels, weighs the two modules. Matrices are dense, N × N.

This follows the authors' code in OpenFGL, with the exceptions named in `signed_weights` and
`homophily_confidence`.
"""

import itertools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.extensions.graph_baselines.label_propagation import propagate
from curvfed.tasks.draws import permutation
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import dropout, start_all

LABEL_STEPS = 10
LABEL_SHARE = 0.5
"""Label propagations for the confidence score, and κ, the share of its own label that a node keeps,
as in the authors' code."""

UNKNOWN = 0.5
"""The confidence score with too few labels to measure it: both modules get the same weight."""

ALIKE = 0.999
"""Two nodes are predicted alike if their cosine is larger, as in the authors' code."""


@dataclass(frozen=True)
class AdaptiveSpec:
    """The settings of the network, apart from the extractor.

    Attributes
    ----------
    num_features, num_classes, width : int
    dropout : float
    steps : int
        k, the number of feature propagations.
    alpha : float
        α, the weight of the edges in feature propagation; pairs predicted alike have 1 − α.
    beta : float
        β, the weight of these pairs in the signed weights; the learned similarity has 1 − β.
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
    """The constants of a graph: P̂ (N, C), the pairs predicted alike (N, N), and the smoothed X (N,
    (k + 1) F)."""

    inputs: GraphInputs
    predictions: Tensor
    alike: Tensor
    smoothed: Tensor


class AdaptiveNet(nn.Module):
    """Both modules and their mixture.

    Homophilous: H̃ = MLP of the smoothed features, and Ŷ_ho = (softmax(H̃) + softmax(P̂))/2; as P̂
    are shares already, the second term is nearly even. Heterophilous: H_s = another MLP of the
    smoothed features, H_f = MLP of a node's own features, H_m = `pass_messages` of a third MLP of
    the smoothed features, Ŷ_he = (softmax(H_s) + softmax(H_f) + softmax(H_m))/3. Together Ŷ = s
    Ŷ_ho + (1 − s) Ŷ_he, s the confidence score. The network's state is its parameters, with the
    extractor's, so that it applies to any graph.

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
        self._constants: _Constants | None = None

    def train(self, mode: bool = True) -> "AdaptiveNet":
        """Set the mode of everything but the extractor."""
        super().train(mode)
        self.extractor.eval()
        return self

    def branches(self, inputs: GraphInputs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """H̃, H_s, H_f and H_m, each (N, C), logits."""
        constants = self._constants_of(inputs)
        logits = self.passing(constants.smoothed)
        weights = signed_weights(constants.alike, logits, self.spec.beta)
        return (
            self.smooth(constants.smoothed),
            self.deep(constants.smoothed),
            self.plain(inputs.dense),
            pass_messages(weights, logits, self.passing.slope),
        )

    def loss(self, inputs: GraphInputs, labels: Tensor, rows: Tensor) -> Tensor:
        """The sum of the branches' cross-entropies on the labelled rows, plus the mean square of H̃
        − P̂ over all nodes.

        The last term is the knowledge-preserving loss, of logits and shares as in the authors'
        code.
        """
        logits = self.branches(inputs)
        losses = [F.cross_entropy(branch[rows], labels) for branch in logits]
        supervised = torch.stack(losses).sum()
        return supervised + F.mse_loss(logits[0], self._constants_of(inputs).predictions)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """log Ŷ, (N, C): logits with softmax Ŷ."""
        logits = (*self.branches(inputs), self._constants_of(inputs).predictions)
        smooth, deep, plain, passed, extracted = (branch.softmax(dim=1) for branch in logits)
        mixed = torch.lerp((deep + plain + passed) / 3, (smooth + extracted) / 2, self.confidence)
        return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()

    def _constants_of(self, inputs: GraphInputs) -> _Constants:
        """The constants of a graph, computed once, as the extractor does not change."""
        if self._constants is None or self._constants.inputs is not inputs:
            with torch.inference_mode(False), torch.no_grad():
                predictions = self.extractor(inputs).softmax(dim=1)
                alike = predicted_alike(predictions)
                smoothed = smoothed_features(alike, inputs, self.spec.alpha, self.spec.steps)
                self._constants = _Constants(inputs, predictions, alike, smoothed)
        return self._constants


class _MLP(nn.Module):
    """Linear layers to logits, with PReLU and dropout between them; initial weights are as large as
    the authors'."""

    def __init__(self, num_in: int, spec: AdaptiveSpec, hidden: int) -> None:
        super().__init__()
        widths = [num_in, *[spec.width] * hidden, spec.num_classes]
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(widths)]
        start_all(*layers, gain=math.sqrt(2))
        self.layers = nn.ModuleList(layers)
        self.slope = nn.PReLU()
        self.dropout = spec.dropout

    def forward(self, x: Tensor) -> Tensor:
        """(N, num_in) -> (N, C)."""
        first, *hidden = self.layers
        x = first(x)
        for layer in hidden:
            x = layer(dropout(self.slope(x), self.dropout, self.training))
        return x


def predicted_alike(predictions: Tensor) -> Tensor:
    """1 if the rows of softmax(P̂) have a cosine above `ALIKE`, else 0, and 0 on the diagonal.

    The paper takes the cosines of P̂. The authors' code takes the softmax of shares and rounds;
    nodes are alike if they have the same class with similar shares.

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
    """X, S X, …, Sᵏ X side by side, S = D^-1/2 (P + I) D^-1/2, P = α A + (1 − α) `alike`.

    Parameters
    ----------
    alike : Tensor, (N, N)
    inputs : GraphInputs
        With the features X, (N, F), and the edges A.
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
    powers = [inputs.dense]
    for _ in range(steps):
        scaled = scale * powers[-1]
        powers.append(scale * (propagation @ scaled + scaled))
    return torch.cat(powers, dim=1)


def signed_weights(alike: Tensor, logits: Tensor, beta: float) -> Tensor:
    """The weight of each node for each other node, in [-1, 1], and 1 on the diagonal.

    R = β `alike` + (1 − β) cos(softmax(H)), 0 on the diagonal. Entries above the mean of R are
    scaled to (0, 1], entries below to [-1, 0): similar nodes count, dissimilar nodes count with the
    opposite sign. The paper does not specify this function. The authors' code scales the upper half
    in the same way; its lower half runs from 0 for the least similar to -1 at the mean, where it
    jumps, which is probably an error. On Cora both score the same.

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
    loops = torch.eye(rows.shape[0], dtype=torch.bool, device=rows.device)
    mixed = beta * alike + (1 - beta) * (rows @ rows.t())
    similar = mixed.masked_fill(loops, 0)
    mean = similar.mean()
    tiny = torch.finfo(similar.dtype).tiny
    above = (similar.max() - mean).clamp_min(tiny)
    below = mean.clamp_min(tiny)
    centred = similar - mean
    return torch.where(centred > 0, centred / above, centred / below).masked_fill(loops, 1)


def pass_messages(weights: Tensor, logits: Tensor, sign: nn.Module) -> Tensor:
    """H_m = (H + softmax(σ(W) H) − softmax(σ(−W) H))/2, σ a PReLU: messages with positive weights
    minus messages with negative weights.

    One pass, as in the authors' code; the softmax and the half keep sums over all nodes bounded.
    """
    positive = F.softmax(sign(weights) @ logits, dim=1)
    negative = F.softmax(sign(-weights) @ logits, dim=1)
    return (logits + positive - negative) / 2


def homophily_confidence(
    inputs: GraphInputs, rows: Tensor, labels: Tensor, num_classes: int
) -> float:
    """The homophily confidence score: the share of masked training nodes that their neighbourhoods
    classify correctly.

    Half of the training nodes are masked, drawn from dropout's generator. The labels of the others
    are propagated, Y ← κ Y₀ + (1 − κ) Â Y, Â the normalised adjacency with self-loops. Rows of Y₀
    without a label are 0; the authors' 1/C would add the same to all classes. A node without any
    propagated label counts as wrong; in the authors' code it has the first class. Their code adds
    its label to a labelled node a second time in each step, which weighs labelled nodes more.

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
    order = permutation(len(rows), rows.device)
    labelled = order[: len(rows) // 2]
    masked = order[len(rows) // 2 :]
    soft_labels = torch.zeros(
        inputs.num_nodes, num_classes, dtype=inputs.features.matrix.dtype, device=rows.device
    )
    soft_labels[rows[labelled], labels[labelled]] = 1
    propagated = propagate(soft_labels, inputs.adjacency, LABEL_STEPS, LABEL_SHARE)
    largest = propagated[rows[masked]].max(dim=1)
    is_right = (largest.indices == labels[masked]) & (largest.values > 0)
    return float(is_right.double().mean())

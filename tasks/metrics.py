"""Accuracy and area under the ROC curve, in torch, so that a client process imports nothing
else.
"""

import torch
from torch import Tensor


def score(metric: str, logits: Tensor, labels: Tensor) -> float | None:
    """Evaluate logits of some examples.

    Parameters
    ----------
    metric : str
        "accuracy" or "roc_auc"; the latter takes the second of two classes as positive.
    logits : Tensor, (n, C), float
    labels : Tensor, (n,), int64

    Returns
    -------
    float or None
        In [0, 1]; None if the score is undefined: without examples, or for "roc_auc" with a single
        class. Logits that are not finite count as wrong for "accuracy" and make "roc_auc"
        undefined.
    """
    if len(labels) == 0:
        return None
    if metric == "accuracy":
        return float((predictions(logits) == labels).double().mean())
    if metric != "roc_auc":
        raise ValueError(f'metric is "{metric}"; allowed: accuracy, roc_auc')
    return roc_auc((logits[:, 1] - logits[:, 0]).double(), labels == 1)


def predictions(logits: Tensor) -> Tensor:
    """The class (n,) of the largest of the logits (n, C), or −1, no class, unless all are finite.

    Examples
    --------
    >>> predictions(torch.tensor([[0.0, 2.0], [float("nan"), 0.0]])).tolist()
    [1, -1]
    """
    return logits.argmax(dim=1).where(logits.isfinite().all(dim=1), -1)


def roc_auc(scores: Tensor, positive: Tensor) -> float | None:
    """Share of (positive, negative) pairs in the right order, ties counting half (Mann-Whitney U,
    by mean ranks).

    Parameters
    ----------
    scores : Tensor, (n,), float64
    positive : Tensor, (n,), bool

    Returns
    -------
    float or None
        None where there is no pair or a score is not finite.
    """
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    if num_positive == 0 or num_negative == 0 or not bool(scores.isfinite().all()):
        return None
    _, group, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    ends = counts.cumsum(0)
    mean_rank = ends.double() - (counts - 1).double() / 2
    rank_sum = float(mean_rank[group[positive]].sum())
    return (rank_sum - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative)

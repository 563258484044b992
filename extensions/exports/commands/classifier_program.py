"""The classifier of a one-shot run as a program of torch alone."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from curvfed.extensions.exports.commands.programs import PointProgram
from curvfed.geometry import poincare
from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.depth import MedianDepth

BUFFERS = {"normals", "intercepts", "references", "platt", "centres", "outlines"}
"""The stored arrays of a classifier that its program computes with."""


class ClassifierProgram(PointProgram):
    """The classifier of a one-shot run, in float64.

    Parameters
    ----------
    classifier : Classifier
    """

    normals: Tensor
    intercepts: Tensor
    references: Tensor
    platt: Tensor
    centres: Tensor
    outlines: Tensor
    begin: Tensor
    edges: Tensor
    is_body: Tensor

    def __init__(self, classifier: Classifier) -> None:
        nn.Module.__init__(self)
        self.classifier = classifier
        self.kind: Kind = classifier.kind
        self.curvature = classifier.curvature
        self.temperature = classifier.temperature
        self.num_groups = len(classifier.groups)
        arrays = classifier.arrays()
        for name in BUFFERS & arrays.keys():
            self.register_buffer(name, torch.from_numpy(arrays[name]))
        if isinstance(classifier.model, MedianDepth):
            self._add_edges(classifier.model)

    def forward(  # type: ignore[override]
        self, points: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Points (n, 2) of the disc, float64, to classes (n,), their probabilities (n, J), and
        whether they belong to none of the classes (n,), as no point outside the disc does."""
        scores = self._depths(points) if self.kind == "depth" else self._scores(points)
        logs = self._logs(scores)
        winners = logs.argmax(dim=1)
        if self.kind != "depth" and self.num_groups == 2:
            winners = (scores[:, 0] > 0).long()
        probabilities = (logs / self.temperature).softmax(dim=1)
        return winners, probabilities, self._outside(points)

    def _scores(self, points: Tensor) -> Tensor:
        """Scores (n, m) of the lines."""
        if self.kind == "poincare":
            tangents: Tensor = poincare.log(self.references[:, None], points, self.curvature)
            return (tangents * self.normals[:, None]).sum(-1).t()
        return self._features(points) @ self.normals.t() + self.intercepts

    def _features(self, points: Tensor) -> Tensor:
        """Features (n, d), as the estimators of `curvfed.geometry.linear_classifiers`."""
        if self.kind == "plane":
            return points
        if self.kind == "lorentz":
            unit = points * math.sqrt(-self.curvature)
            squares = unit.square().sum(dim=1, keepdim=True)
            return torch.cat([1 + squares, 2 * unit], dim=1) / (1 - squares)
        tangents: Tensor = poincare.log0(points, self.curvature)
        if self.kind == "logistic":
            return tangents
        u, v = tangents[:, :1], tangents[:, 1:]
        return torch.cat([tangents, u * u, u * v, v * v], dim=1)

    def _logs(self, scores: Tensor) -> Tensor:
        """Logarithms (n, J) of the probabilities, up to a constant for each point."""
        if self.kind == "poincare":
            exponents = scores * self.platt[:, 0] + self.platt[:, 1]
            if self.num_groups == 2:
                exponents = torch.cat([-exponents, exponents], dim=1)
            # −log(1 + eˣ), which ONNX's runtime lacks in float64
            return -exponents.clamp(min=0) - (-exponents.abs()).exp().log1p()
        if self.kind != "depth" and self.num_groups == 2:
            return torch.cat([torch.zeros_like(scores), scores], dim=1)
        return scores

    def _add_edges(self, model: MedianDepth) -> None:
        """The edges of the hulls in the Klein model."""
        hulls = model.hulls
        sizes = [len(hull) for hull in hulls]
        edges = np.concatenate([np.roll(hull, -1, axis=0) - hull for hull in hulls])
        self.register_buffer("begin", torch.from_numpy(np.concatenate(hulls)))
        self.register_buffer("edges", torch.from_numpy(edges))
        self.register_buffer("is_body", torch.tensor(sizes) > 2)
        self.sizes = sizes
        self.members = [np.flatnonzero(model.groups == group) for group in model.classes_]

    def _depths(self, points: Tensor) -> Tensor:
        """Median depths (n, J) in the hulls of each group, as
        `curvfed.strategies.hull.depth.MedianDepth`."""
        disc = points * math.sqrt(-self.curvature)
        klein = 2 * disc / (1 + disc.square().sum(dim=1, keepdim=True))
        apart = klein[:, None] - self.begin
        square = self.edges.square().sum(dim=1)
        square = torch.where(square == 0, 1.0, square)
        along = ((apart * self.edges).sum(-1) / square).clamp(0, 1)
        far = (apart - along[..., None] * self.edges).square().sum(-1)
        crossed = self.edges[:, 0] * apart[..., 1] - self.edges[:, 1] * apart[..., 0]
        inward = crossed / square.sqrt()
        nearest = _least(far, self.sizes).sqrt()
        inside = (_least(inward, self.sizes) >= 0) & self.is_body
        depths = torch.where(inside, nearest, -nearest)
        return torch.stack([_median(depths[:, member]) for member in self.members], dim=1)

    def _outside(self, points: Tensor) -> Tensor:
        """Whether points lie outside the disc, are NaN, or lie outside the outlines of all groups
        (n,), as `curvfed.strategies.hull.grouped_hulls.Outlines`."""
        disc = points * math.sqrt(-self.curvature)
        outside = ~(disc.square().sum(dim=1) < 1)
        if not hasattr(self, "outlines"):
            return outside
        in_none = torch.ones_like(outside)
        for centre, radii in zip(self.centres, self.outlines, strict=True):
            in_none = in_none & (_ratios(disc, centre, radii) > 1)
        return outside | in_none


def _least(values: Tensor, sizes: list[int]) -> Tensor:
    """Minima (n, h) over consecutive columns of (n, e)."""
    return torch.stack([hull.amin(dim=1) for hull in torch.split(values, sizes, dim=1)], dim=1)


def _median(values: Tensor) -> Tensor:
    """Medians (n,) of rows (n, m): the mean of the two middle values of an even number."""
    ordered = values.sort(dim=1).values
    count = values.shape[1]
    return (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2


def _ratios(points: Tensor, centre: Tensor, radii: Tensor) -> Tensor:
    """Distances of points (n, 2) from a centre, in units of the outline's in their direction."""
    x = points[:, 0] - centre[0]
    y = points[:, 1] - centre[1]
    # (z - c)/(1 - z c*), the translation of the centre to the origin
    real = 1 - points[:, 0] * centre[0] - points[:, 1] * centre[1]
    imaginary = points[:, 0] * centre[1] - points[:, 1] * centre[0]
    square = real.square() + imaginary.square()
    a = (x * real + y * imaginary) / square
    b = (y * real - x * imaginary) / square
    length = (a.square() + b.square()).sqrt()
    # ONNX's runtime has the angle in float32 alone; the rest of it is its own sine.
    angle = torch.atan2(b.float(), a.float()).double()
    angle = angle + (b * angle.cos() - a * angle.sin()) / length.clamp(min=1e-300)
    place = (angle / (2 * torch.pi)).remainder(1) * len(radii)
    low = place.floor().long() % len(radii)
    share = place - place.floor()
    high = (low + 1) % len(radii)
    reach = radii[low] + share * (radii[high] - radii[low])
    distance = length.clamp(max=1 - 1e-15)
    return (distance.log1p() - (-distance).log1p()) / reach

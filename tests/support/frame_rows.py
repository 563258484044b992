"""Rows of a chart at a distance from the origin."""

import torch


def rows_of(chart, radius, dtype, seed=0):
    """Three rows at a distance from the origin, in units of 1/√|c|."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    directions /= directions.norm(dim=1, keepdim=True)
    return chart.of_unit_space(directions * torch.tensor(radius).sinh()).to(dtype)

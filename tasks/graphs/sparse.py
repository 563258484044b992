"""Sparse matrices: constant matrices as left factors, the matrices of a graph, CSR arrays."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

BLOCK = 2**25
"""Entries of one dense block of a sparse matrix, 128 MiB."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A matrix without gradient together with its transpose.

    torch's backward pass of a CSR product transposes the matrix in each step; storing the transpose
    makes a GCN step about twice as fast.
    """

    matrix: Tensor
    transpose: Tensor

    @classmethod
    def of(cls, matrix: Tensor, symmetric: bool = False) -> "Constant":
        """From a matrix (N, M), sparse CSR or dense."""
        if matrix.layout != torch.sparse_csr:
            return cls(matrix, matrix if symmetric else matrix.t().contiguous())
        short = _short_indices(matrix)
        return cls(short, short if symmetric else _short_indices(matrix.t().to_sparse_csr()))

    def __matmul__(self, x: Tensor) -> Tensor:
        """Product (N, M) @ (M, d) -> (N, d)."""
        return _Product.apply(self.matrix, self.transpose, x)

    @cached_property
    @torch.inference_mode(False)  # scoring may be the first to ask, and training uses the result
    def row_sums(self) -> Tensor:
        """The sums of the rows, (N, 1)."""
        is_sparse = self.matrix.layout == torch.sparse_csr
        values = self.matrix.values() if is_sparse else self.matrix
        return multiply(self.matrix, values.new_ones(self.matrix.shape[1], 1))

    def to(self, device: torch.device) -> "Constant":
        """The same matrix on another device."""
        return Constant(self.matrix.to(device), self.transpose.to(device))


def _short_indices(matrix: Tensor) -> Tensor:
    """The same CSR matrix with 32-bit indices, which spares the CPU's sparse kernels a conversion
    in each product."""
    crow = matrix.crow_indices().int()
    columns = matrix.col_indices().int()
    return csr(crow, columns, matrix.values(), matrix.shape[1])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, x: Tensor) -> Tensor:
        ctx.transpose = transpose
        return multiply(matrix, x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, multiply(ctx.transpose, gradients[0])


def multiply(matrix: Tensor, x: Tensor) -> Tensor:
    """matrix @ x for a matrix in CSR or dense layout, without gradient: (N, M) and (M, d) ->
    (N, d).

    `matrix @ x` first fills two matrices with zeros and copies one to the other, which can take
    longer than the product. On a GPU its sums over long rows come in any order, and so differ in
    the last bits between equal calls; here rows are summed in the order of their entries.
    """
    if torch.compiler.is_exporting():
        return matrix @ x
    if matrix.is_cuda and matrix.layout == torch.sparse_csr:
        return _ordered_product(matrix, x)
    out = x.new_empty(matrix.shape[0], x.shape[1])
    return torch.addmm(out, matrix, x, beta=0, out=out)


def row_means(weights: "Constant | Tensor", x: Tensor) -> Tensor:
    """Means (N, d) of rows x (M, d), each with its row of non-negative weights (N, M), not all
    0."""
    if isinstance(weights, Constant):
        return (weights @ x) / weights.row_sums
    return (weights @ x) / weights.sum(dim=-1, keepdim=True)


def _ordered_product(matrix: Tensor, x: Tensor) -> Tensor:
    return torch.nn.functional.embedding_bag(
        matrix.col_indices(),
        x,
        matrix.crow_indices(),
        mode="sum",
        per_sample_weights=matrix.values(),
        include_last_offset=True,
    )


def normalized_adjacency(
    edge_index: Tensor,
    num_nodes: int,
    dtype: torch.dtype = torch.float32,
    weights: Tensor | None = None,
) -> Constant:
    """D^-1/2 (A + I) D^-1/2 of an undirected graph, D counting the self-loops (Kipf & Welling,
    2017, Eq. 2).

    Parameters
    ----------
    edge_index : Tensor, (2, E), int64
        Both directions, no self-loops, no duplicates.
    num_nodes : int
    dtype : torch.dtype
    weights : Tensor, (E,), or None
        The entries of A, at least 0 and the same in both directions; None: 1.

    Returns
    -------
    Constant, (N, N), sparse CSR
        An isolated node has the one entry 1 in its row.
    """
    loops = torch.arange(num_nodes, device=edge_index.device)
    rows, columns = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
    order = torch.argsort(rows * num_nodes + columns)
    rows = rows[order]
    columns = columns[order]
    counts = torch.bincount(rows, minlength=num_nodes)
    if weights is None:
        scale = counts.to(dtype).rsqrt()
        values = scale[rows] * scale[columns]
    else:
        weights = torch.cat(
            [weights.to(dtype), torch.ones(num_nodes, dtype=dtype, device=loops.device)]
        )[order]
        scale = torch.segment_reduce(weights, "sum", lengths=counts).rsqrt()
        values = scale[rows] * scale[columns] * weights
    return Constant.of(csr(bounds(counts), columns, values, num_nodes), symmetric=True)


def neighbour_sums(
    edge_index: Tensor, num_nodes: int, dtype: torch.dtype = torch.float32
) -> Constant:
    """The adjacency matrix A of an undirected graph, with edges as in `normalized_adjacency`,
    sorted lexicographically.

    Returns
    -------
    Constant, (N, N), sparse CSR
        Without self-loops: isolated nodes lack entries.
    """
    rows, columns = edge_index
    values = torch.ones(len(columns), dtype=dtype, device=columns.device)
    row_starts = bounds(torch.bincount(rows, minlength=num_nodes))
    return Constant.of(csr(row_starts, columns, values, num_nodes), symmetric=True)


def memberships(owner: Tensor, count: int, dtype: torch.dtype = torch.float32) -> Constant:
    """A matrix of 0 and 1: which of `count` groups each row belongs to.

    Parameters
    ----------
    owner : Tensor, (N,), int64
        Ascending, in 0..count-1.

    Returns
    -------
    Constant, (count, N), sparse CSR
        Groups without rows lack entries.
    """
    places = torch.arange(len(owner) + 1, device=owner.device)
    values = torch.ones(len(owner), dtype=dtype, device=owner.device)
    row_starts = bounds(torch.bincount(owner, minlength=count))
    matrix = csr(row_starts, places[:-1], values, len(owner))
    return Constant(_short_indices(matrix), _short_indices(csr(places, owner, values, count)))


def bounds(lengths: Tensor) -> Tensor:
    """Starts of consecutive ranges of these lengths, from 0, and the end of the last: (n,) -> (n +
    1,)."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def positions(bounds: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The positions in the chosen ranges of consecutive ranges, range by range, and the lengths of
    the chosen ranges."""
    start = bounds[chosen]
    lengths = bounds[chosen + 1] - bounds[chosen]
    position = torch.arange(int(lengths.sum()), device=bounds.device)
    return position + (start - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths), lengths


def select_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Rows of a dense or CSR matrix by their numbers, in the same layout."""
    if matrix.layout != torch.sparse_csr:
        return matrix[rows]
    entries, lengths = positions(matrix.crow_indices().long(), rows)
    columns = matrix.col_indices()[entries]
    row_starts = bounds(lengths).to(columns.dtype)
    return csr(row_starts, columns, matrix.values()[entries], matrix.shape[1])


def row_norms(matrix: Tensor) -> Tensor:
    """Euclidean norms (N, 1) of the rows of a dense or CSR matrix; CSR rows become dense in blocks
    of `BLOCK` entries."""
    if matrix.layout != torch.sparse_csr:
        return torch.linalg.vector_norm(matrix, dim=1, keepdim=True)
    numbers = torch.arange(len(matrix), device=matrix.device)
    blocks = torch.split(numbers, max(1, BLOCK // matrix.shape[1]))
    return torch.cat([row_norms(select_rows(matrix, rows).to_dense()) for rows in blocks])


def csr(crow: Tensor, columns: Tensor, values: Tensor, num_columns: int) -> Tensor:
    """A sparse CSR tensor from its arrays, with its invariants checked."""
    with warnings.catch_warnings():  # torch warns once per process that the layout is in beta
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(
            crow, columns, values, size=(len(crow) - 1, num_columns), check_invariants=True
        )

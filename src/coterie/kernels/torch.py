"""The kernels for torch tensors: Triton on a GPU, plain torch elsewhere, so that the same code can be tested anywhere.

The functions are those of :mod:`coterie.kernels.cpu`, and so is the layout of ``indices`` and ``weights``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.kernels import to_tensor, triangle_side
from coterie.kernels._torch_columns import (  # noqa: F401
    column_mean_and_std,
    column_quantiles,
    median,
    orthonormal,
    principal_directions,
    small_eigenpairs,
    symmetric_eigenpairs,
)
from coterie.kernels._torch_groups import (  # noqa: F401
    add_groups,
    assign,
    confidence,
    count_groups,
    least_in_group,
    nearest_in_group,
    zero_rows,
)
from coterie.kernels._torch_kmeans import best_centroids, cluster_tables, kmeans_plus_plus, kmeans_runs  # noqa: F401
from coterie.kernels._torch_votes import prediction_tables  # noqa: F401

if TYPE_CHECKING:
    import torch

# Several graphs, runs or parts are processed at once: a single one does not keep a GPU busy.
BATCHED = True

# Products with landmarks and the choice of the nearest ones are one kernel, ``nearest``.
FUSED = True

# On a GPU a full reduction of a matrix takes longer than any number of filters that would be tried.
FILTERS_PER_REDUCTION = math.inf

# The largest degree of a Chebyshev filter: on a GPU products cost little beside the decompositions between filters.
FILTER_DEGREE = 30

# Precisions of products with the landmarks; float32 is done by three tf32 products, as accurate as float32 and faster.
PRECISIONS = ("float32", "tf32")

# Rows of a dense product, where there is no fused kernel, and of a float32 sum of outer products.
DENSE_ROWS = 4096

ROWS_PER_PROGRAM = 128

# ``nearest`` keeps the four nearest landmarks of each of NEAREST_LANES lanes: enough for MOST_NEIGHBOURS neighbours.
# At most MOST_BITS bits number a lane's landmarks; the others hold distances at about the precision of float32.
NEAREST_LANES = 32
MOST_NEIGHBOURS = 16
MOST_BITS = 7

# Programs that share the rows of the second, careful search: enough for any GPU.
PROGRAMS = 512


# Columns of rows that are multiplied at a time; tables that are gathered from have a multiple of GATHERED columns.
BLOCK_D = 32
GATHERED = 16


class Tile(NamedTuple):
    """The part of the distances that one program of ``nearest`` works on at a time; chosen by measurement."""

    BLOCK_N: int
    BLOCK_P: int
    num_warps: int
    num_stages: int
    BLOCK_D: int = BLOCK_D


WIDE = Tile(128, 256, 8, 3)  # where the product takes most of the time
NARROW = Tile(64, 128, 4, 3)  # where the selection does


def zeros(shape: tuple[int, ...], like: Any) -> Any:
    """Return float64 zeros on the device of ``like``."""
    import torch

    return torch.zeros(shape, dtype=torch.float64, device=like.device)


def nearest(
    rows: Any, row_norms: Any, landmarks: Any, landmark_norms: Any, q: int, precision: str = "float32"
) -> tuple[Any, Any]:
    """Return the numbers of each row's q nearest landmarks, unsorted, and their squared distances.

    Norms are squared lengths, infinite for rows and landmarks that lack the view.
    """
    import torch

    n, p = len(rows), len(landmarks)
    if rows.is_cuda and rows.dtype == torch.float32:
        return nearest_fused(rows, row_norms, landmarks, landmark_norms, q, precision)
    indices = torch.zeros((n, q), dtype=index_type(p), device=rows.device)
    squares = torch.empty((n, q), dtype=rows.dtype, device=rows.device)
    for start in range(0, n, DENSE_ROWS):
        part = slice(start, start + DENSE_ROWS)
        distances = finish_distances(rows[part] @ landmarks.mT, row_norms[part], landmark_norms)  # (b, p)
        # A stable sort and not topk: among equal distances the first landmark wins, as everywhere.
        ((indices[part], squares[part]),) = smallest(distances[None], [q])
    return indices, squares


def nearest_at_scales(
    rows: Any, row_norms: Any, landmarks: Any, landmark_norms: Any, scales: Sequence[int], precision: str
) -> list[tuple[Any, Any]]:
    """Return the same for every q of ``scales``."""
    indices, squares = nearest(rows, row_norms, landmarks, landmark_norms, max(scales), precision)  # (b, widest)
    if len(scales) > 1:  # a smaller scale is a prefix of a larger one
        squares, order = squares.sort(dim=1, stable=True)
        indices = indices.gather(1, order)
    return [(indices[:, :q], squares[:, :q]) for q in scales]


def nearest_fused(
    rows: Any, row_norms: Any, landmarks: Any, landmark_norms: Any, q: int, precision: str
) -> tuple[Any, Any]:
    """Return the same by Triton: a fast kernel, and a careful one for rows whose neighbours the first may miss."""
    import torch
    import triton

    from coterie.kernels._triton import careful_nearest_kernel, nearest_kernel

    rows, landmarks = widened(rows, BLOCK_D), widened(landmarks, BLOCK_D)
    (n, d), p = rows.shape, len(landmarks)
    indices = torch.empty((n, q), dtype=index_type(p), device=rows.device)
    squares = torch.empty((n, q), dtype=rows.dtype, device=rows.device)
    tables, sizes = (rows, row_norms, landmarks, landmark_norms), (n, p, d, rows.stride(0), q)

    def settings(tile: Tile) -> dict[str, Any]:
        rounding = "tf32x3" if precision == "float32" else "tf32"
        return {"PRECISION": rounding, **tile._asdict()}

    bits = max(1, (triton.cdiv(p, NEAREST_LANES) - 1).bit_length())
    quick = q <= MOST_NEIGHBOURS and bits <= MOST_BITS
    unsure = torch.empty(n if quick else 0, dtype=torch.int32, device=rows.device)
    n_unsure = torch.zeros(1, dtype=torch.int32, device=rows.device)
    if quick:
        tile = WIDE if precision == "tf32" and d >= 256 else NARROW
        reach = landmark_norms.nan_to_num(posinf=0.0).amax()
        nearest_kernel[(triton.cdiv(n, tile.BLOCK_N),)](
            *tables, reach, indices, squares, unsure, n_unsure, *sizes, WIDTH=NEAREST_LANES, BITS=bits, **settings(tile)
        )
    blocks = triton.cdiv(n, NARROW.BLOCK_N)
    careful_nearest_kernel[(min(blocks, PROGRAMS) if quick else blocks,)](
        *tables,
        indices,
        squares,
        unsure,
        n_unsure,
        *sizes,
        LISTED=quick,
        Q=max(2, triton.next_power_of_2(q)),
        **settings(NARROW),
    )
    return indices, squares


def widened(table: Any, multiple: int) -> Any:
    """Return a table padded with columns of zeros to a multiple of a number of columns.

    Its rows then begin at multiples of 16 bytes, and are read four numbers at a time. Without padding, the search
    among 1,000 landmarks took seven times as long for 20 columns as for 32.
    """
    import torch

    missing = -table.shape[-1] % multiple
    return torch.nn.functional.pad(table, (0, missing)) if missing else table.contiguous()


def finish_and_find(
    products: Any, row_norms: Any, landmark_norms: Any, scales: Sequence[int], found: tuple[Any, Any]
) -> None:
    """Turn products x.m into squared distances, in place, and write the nearest landmarks to ``found``."""
    smallest(finish_distances(products, row_norms, landmark_norms)[None], scales, found)


def smallest(distances: Any, scales: Sequence[int], found: tuple[Any, Any] | None = None) -> list[tuple[Any, Any]]:
    """Return each row's q nearest landmarks by the sum of distances (V, b, p), and those sums, for every q.

    The scales are written to ``found``, side by side, if there is one.
    """
    total = distances[0]
    for more in distances[1:]:
        total = total + more
    squares, order = total.sort(dim=1, stable=True)
    indices = order[:, : max(scales)].to(index_type(distances.shape[2]))
    parts = [(indices[:, :q], squares[:, :q]) for q in scales]  # a smaller scale is a prefix of a larger one
    if found is not None:
        for part, q, stop in zip(parts, scales, accumulate(scales), strict=True):
            found[0][:, stop - q : stop], found[1][:, stop - q : stop] = part
    return parts


def new_neighbours(n_rows: int, n_neighbours: int, n_landmarks: int, like: Any) -> tuple[Any, Any]:
    """Return empty tensors for landmark numbers and for distances in the precision of ``like``, slot by slot."""
    import torch

    shape = (n_neighbours, n_rows)
    indices = torch.empty(shape, dtype=index_type(n_landmarks), device=like.device)
    return indices.mT, torch.empty(shape, dtype=like.dtype, device=like.device).mT


def rows_beyond(squares: Any, columns: Sequence[tuple[int, int]], limits: np.ndarray) -> np.ndarray:
    """Return the numbers of rows with a finite value beyond the limit of its range of columns (first, last)."""
    import torch

    beyond = torch.zeros(len(squares), dtype=torch.bool, device=squares.device)  # (b,)
    for (start, stop), limit in zip(columns, limits.tolist(), strict=True):
        own = squares[:, start:stop]  # (b, q)
        beyond |= ((own > limit) & (own < torch.inf)).any(dim=1)
    return beyond.nonzero()[:, 0].cpu().numpy()  # usually none: a mask of all rows would be copied


def gaussian(squares: Any, bounds: np.ndarray, bandwidths: Sequence[float]) -> Any:
    """Turn squared distances into exp(-d^2 / 2 sigma^2), each graph's summing to one (the paper's Eq. (1))."""
    import torch

    if squares.is_cuda and squares.dtype == torch.float32:
        return gaussian_fused(squares, bounds, bandwidths)
    for (start, stop), bandwidth in zip(pairwise(bounds), bandwidths, strict=True):
        squares[:, start:stop] = gaussian_weights(squares[:, start:stop], bandwidth)
    return squares


def gaussian_fused(squares: Any, bounds: np.ndarray, bandwidths: Sequence[float]) -> Any:
    """Return the same by one launch, in place."""
    import torch
    import triton

    from coterie.kernels._triton import gaussian_kernel

    given = to_tensor(np.asarray(bandwidths, dtype=np.float32), squares.device)
    gaussian_kernel[(triton.cdiv(len(squares), ROWS_PER_PROGRAM), len(given))](
        squares,
        bounds_at(bounds, squares),
        given,
        len(squares),
        squares.stride(1),
        squares.stride(0),
        BLOCK_N=ROWS_PER_PROGRAM,
        TINY=torch.finfo(squares.dtype).tiny,
    )
    return squares


def gaussian_weights(squares: Any, bandwidth: float) -> Any:
    """Return the weights of one graph; zero where no distance is finite."""
    import torch

    tiny, none = torch.finfo(squares.dtype).tiny, squares.new_zeros(())
    known = squares < torch.inf  # (b, q)
    least = squares.amin(dim=1, keepdim=True)  # (b, 1)
    if bandwidth > 0:
        spread: Any = max(2 * bandwidth * bandwidth, tiny)
    else:
        total = torch.where(known, squares, none).sqrt_().sum(dim=1, keepdim=True)  # (b, 1)
        sigma = total.div_(known.sum(dim=1, keepdim=True).clamp_(min=1))
        spread = (2 * sigma).mul_(sigma).clamp_(min=tiny)  # (b, 1); above 0: equal weights where all distances are 0
    weights = torch.where(known, (least - squares).div_(spread).exp_(), none)  # (b, q)
    return weights.div_(weights.sum(dim=1, keepdim=True).clamp_(min=tiny))


def index_type(n_landmarks: int) -> torch.dtype:
    """Return the smallest type that holds the landmarks' numbers."""
    import torch

    return torch.int16 if n_landmarks < 2**15 else torch.int32


def lay_out(indices: Any, weights: Any) -> tuple[Any, Any]:
    """Return the neighbours slot by slot, as the kernels expect them."""
    return slot_by_slot(indices), slot_by_slot(weights)


def slot_by_slot(neighbours: Any) -> Any:
    """Return the same (b, Q) tensor with contiguous columns."""
    return neighbours if neighbours.stride(0) == 1 else neighbours.mT.contiguous().mT


def host_neighbours(indices: Any, weights: Any, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return neighbours as NumPy arrays, sorted by landmark as the kernels of a CPU expect them."""
    from coterie.kernels.cpu import sort_neighbours

    copied = np.array(weights.cpu().numpy())  # a copy: sorting is in place, and must not change the tensor
    return sort_neighbours(indices.cpu().numpy().astype(np.uint32), copied, bounds)


def new_gram(n_landmarks: int, like: Any, n_graphs: int | None = None) -> Any:
    """Return zeros that :func:`gram` adds to, on the device of ``like``; on a GPU those of several graphs together.

    On a CPU they are only the lower triangle, row by row.
    """
    import torch

    if not like.is_cuda:
        return torch.zeros(n_landmarks * (n_landmarks + 1) // 2, dtype=torch.float64)
    graphs = () if n_graphs is None else (n_graphs,)
    return torch.zeros((*graphs, n_landmarks, n_landmarks), dtype=torch.int64, device=like.device)


def gram(indices: Any, weights: Any, total: Any) -> None:
    """Add sum_i z_i z_i^T of one graph to ``total``, at least its lower triangle."""
    bounds = np.array([0, indices.shape[1]])
    if indices.is_cuda:
        grams(indices, weights, bounds, total[None])
        return
    from coterie.kernels import cpu

    cpu.gram(*host_neighbours(indices, weights, bounds), total.numpy())


def grams(indices: Any, weights: Any, bounds: np.ndarray, totals: Any) -> None:
    """Add the same of every graph to ``totals`` (G x p x p), on a GPU."""
    import triton

    from coterie.kernels._triton import FIXED_POINT, gram_kernel

    indices, weights = lay_out(indices, weights)
    n, p = len(indices), totals.shape[-1]
    gram_kernel[(triton.cdiv(n, 256), len(totals))](
        indices, weights, bounds_at(bounds, indices), totals, n, p, indices.stride(1), SCALE=FIXED_POINT, BLOCK_N=256
    )


def finish_gram(total: Any) -> Any:
    """Return the whole symmetric matrix of sums, in float64."""
    import torch

    if total.dtype == torch.int64:
        from coterie.kernels._triton import FIXED_POINT

        whole = total.double() / FIXED_POINT
    else:
        p = triangle_side(len(total))
        lower = torch.tril_indices(p, p)
        whole = total.new_zeros((p, p))
        whole[lower[0], lower[1]] = total
    return whole.tril() + whole.tril(-1).mT


def project(indices: Any, weights: Any, bounds: np.ndarray, bases: Any, unit: bool) -> Any:
    """Return [e^1_i .. e^G_i]: the rows' projections on every graph's basis, side by side."""
    import torch

    n_graphs, p, r = bases.shape
    if indices.is_cuda and bases.dtype == torch.float32:
        import triton

        from coterie.kernels._triton import project_kernel

        indices, weights = lay_out(indices, weights)
        bases = widened(bases, GATHERED)
        stacked = torch.empty((len(indices), n_graphs * r), device=indices.device)
        project_kernel[(triton.cdiv(len(indices), ROWS_PER_PROGRAM),)](
            indices,
            weights,
            bounds_at(bounds, indices),
            bases,
            stacked,
            len(indices),
            indices.stride(1),
            p,
            bases.shape[2],
            r,
            n_graphs,
            UNIT=unit,
            BLOCK_N=ROWS_PER_PROGRAM,
            BLOCK_R=block_width(r),
            num_warps=4,
        )
        return stacked
    parts = []
    for basis, (start, stop) in zip(bases, pairwise(bounds.tolist()), strict=True):
        at = basis[indices[:, start:stop].long()]  # (b, q, r)
        parts.append((weights[:, start:stop, None] * at).sum(dim=1))
    return torch.cat([unit_rows(part) if unit else part for part in parts], dim=1)  # (b, G r)


def embed(indices: Any, weights: Any, bounds: np.ndarray, bases: Any, rotation: Any | None) -> Any:
    """Return u*_i = sum_g e^g_i R^g, each e^g_i of length one; without ``rotation`` sum_g sum_j z^g_ij B^g[j]."""
    return embed_or_guide(indices, weights, bounds, bases, rotation, None)


def guide(indices: Any, weights: Any, bounds: np.ndarray, bases: Any, rotation: Any | None, anchors: Any) -> Any:
    """Return Z <- A* (Hadamard) Z, rows of each graph summing to one again, with A*_ij = u*_i . anchor_j."""
    return embed_or_guide(indices, weights, bounds, bases, rotation, anchors)


def embed_or_guide(indices: Any, weights: Any, bounds: np.ndarray, bases: Any, rotation: Any, anchors: Any) -> Any:
    """Return the rows' u*, or the weights that it guides if there are ``anchors``."""
    import torch

    n_graphs, p, r = bases.shape
    k = r if rotation is None else rotation.shape[2]
    if indices.is_cuda and bases.dtype == torch.float32:
        import triton

        from coterie.kernels._triton import embed_kernel

        indices, weights = lay_out(indices, weights)
        bases, anchors = (t if t is None else widened(t, GATHERED) for t in (bases, anchors))
        if rotation is not None:
            missing = (0, -k % GATHERED, 0, -r % GATHERED)
            rotation = torch.nn.functional.pad(rotation, missing).contiguous()  # (G, wide r, wide k)
        out = torch.empty((len(indices), k), device=indices.device) if anchors is None else torch.empty_like(weights)
        embed_kernel[(triton.cdiv(len(indices), ROWS_PER_PROGRAM),)](
            indices,
            weights,
            bounds_at(bounds, indices),
            bases,
            bases if rotation is None else rotation,
            bases if anchors is None else anchors,
            out,
            out,
            len(indices),
            indices.stride(1),
            p,
            bases.shape[2],
            bases.shape[2] if rotation is None else rotation.shape[2],
            k,
            n_graphs,
            UNIT=rotation is not None,
            GUIDE=anchors is not None,
            BLOCK_N=ROWS_PER_PROGRAM,
            BLOCK_R=block_width(r),
            BLOCK_K=block_width(k),
            num_warps=4,
        )
        return out
    parts = project(indices, weights, bounds, bases, rotation is not None).reshape(len(indices), n_graphs, r)
    rows = parts.sum(dim=1) if rotation is None else torch.einsum("bgr,grk->bk", parts, rotation)  # (b, k)
    if anchors is None:
        return rows
    affinities = (rows[:, None] * anchors[indices.long()]).sum(dim=2).clamp(min=0)  # (b, Q)
    guided = []
    for start, stop in pairwise(bounds.tolist()):
        before = weights[:, start:stop]
        after = before * affinities[:, start:stop]
        sums = after.sum(dim=1, keepdim=True)
        guided.append(torch.where(sums > 0, after / torch.where(sums > 0, sums, 1.0), before))
    return torch.cat(guided, dim=1)


def known_graphs(weights: Any, bounds: np.ndarray) -> Any:
    """Return 1 where a row has neighbours in a graph, and 0 where it lacks the graph's view."""
    widths = np.diff(bounds)
    members = to_tensor(np.repeat(np.eye(len(widths)), widths, axis=0), weights.device, weights.dtype)  # (Q, G)
    return (weights @ members > 0).to(weights.dtype)  # (b, G)


def add_powers(rows: Any, squares: Any, fourths: Any) -> None:
    """Add sum_i e_i^2 and sum_i e_i^4 of every column."""
    parts = rows.double() ** 2
    squares += parts.sum(dim=0)
    fourths += (parts**2).sum(dim=0)


def add_outer(rows: Any, total: Any) -> None:
    """Add sum_i e_i e_i^T to ``total``: in float32 within DENSE_ROWS rows, in float64 between them."""
    whole = len(rows) // DENSE_ROWS * DENSE_ROWS
    parts = rows[:whole].reshape(-1, DENSE_ROWS, rows.shape[1])  # (m, DENSE_ROWS, c)
    total += (parts.mT @ parts).sum(dim=0, dtype=total.dtype)
    total += rows[whole:].mT @ rows[whole:]


def unit_rows(rows: Any) -> Any:
    """Return the rows divided by their lengths; a row of zeros, or one whose squares underflow, stays as it is."""
    lengths = rows.norm(dim=1, keepdim=True)  # (b, 1)
    return rows / lengths.masked_fill_(lengths == 0, 1.0)


def squared_norms(rows: Any) -> Any:
    """Return the rows' squared lengths."""
    return (rows * rows).sum(dim=1)  # (b,)


def row_sums(rows: Any) -> Any:
    """Return the rows' sums in float64."""
    import torch

    return rows.sum(dim=1, dtype=torch.float64)  # (b,)


def largest_eigenpairs(matrix: Any, count: int) -> tuple[Any, Any]:
    """Return the largest eigenvalues of symmetric matrices (... x p x p), descending, and their vectors."""
    values, vectors = symmetric_eigenpairs(matrix)
    return values.flip(-1)[..., :count], vectors.flip(-1)[..., :count]


def symmetric(matrix: Any) -> Any:
    """Return symmetric matrices unchanged: they are stored whole."""
    return matrix


whole = symmetric


def side(matrix: Any) -> int:
    """Return the number of rows of symmetric matrices."""
    return int(matrix.shape[-1])


def degrees(gram: Any) -> Any:
    """Return the row sums of symmetric matrices."""
    return gram.sum(dim=-1)  # (..., p)


def normalised_gram(gram: Any, roots: Any, constant: Any | None, precision: str) -> Any:
    """Return D^(-1/2) G D^(-1/2), given the roots of 1 / D, less c c^T for a ``constant`` vector c."""
    import torch

    found = gram * roots[..., None, :] * roots[..., None]  # (G, p, p)
    if constant is not None:
        found -= constant[..., None] * constant[..., None, :]
    return found.to(getattr(torch, precision))


def chebyshev_steps(matrix: Any, before: Any, now: Any, half: Any, degree: int) -> Any:
    """Return T_degree((M - half) / half) of a block, given T_0 and T_1, for several matrices (G x p x p) in float64.

    Both are overwritten: a new array in every step would be one more copy, and one more launch.
    """
    doubled = matrix * (2 / half)
    doubled.diagonal(dim1=-2, dim2=-1).sub_(2)
    for _ in range(degree - 1):
        before, now = now, before.baddbmm_(doubled, now, beta=-1)
    return now


def as_columns(rows: Any) -> Any:
    """Return rows as columns."""
    return rows.T  # (d, n)


def products(rows: Any, columns: Any, out: Any | None = None) -> Any:
    """Return ``rows @ columns``, in ``out`` if there is one."""
    found = rows @ columns  # (b, p)
    if out is None:
        return found
    out[...] = found
    return out


def finish_distances(products: Any, row_norms: Any, landmark_norms: Any) -> Any:
    """Turn products x.m into squared distances, in place."""
    import torch

    norms = row_norms[:, None] + landmark_norms  # (b, p)
    return torch.add(norms, products, alpha=-2, out=products).clamp_(min=0)


def impute_distances(distances: Any, likeness: Any) -> Any:
    """Return squared distances over all views, the missing ones imputed; see ``_numba.impute_distances``."""
    import torch

    nothing = torch.zeros_like(distances[0])  # (b, p)
    seen, evidence, certainty, expected, slope = nothing, nothing, nothing + 1, nothing, nothing
    for distance, (mean, loading, weight, sureness) in zip(distances, likeness, strict=True):
        known = distance.isfinite()
        seen = seen + torch.where(known, distance, nothing)
        evidence = evidence + torch.where(known, (distance - mean) * weight, nothing)
        certainty = certainty + known * sureness
        expected = expected + ~known * mean
        slope = slope + ~known * loading
    whole = seen + (expected + slope * (evidence / certainty)).clamp(min=0)
    known_somewhere = distances.isfinite().any(dim=0)
    return torch.where(known_somewhere, whole, torch.inf)  # (b, p)


def level(rows: Any, center: Any, scale: Any, out: Any) -> Any:
    """Return (x - center) * scale, column by column, of values of any type, as a tensor of type ``out``."""
    import torch

    return (rows.to(center.dtype) - center).mul_(scale).to(getattr(torch, np.dtype(out).name))


def block_width(size: int) -> int:
    """Return the columns that a program works on: a power of two, and at least 16, the smallest size of a product."""
    return max(16, 1 << (size - 1).bit_length())


_bounds: dict[tuple[Any, ...], Any] = {}


def bounds_at(bounds: np.ndarray, like: Any) -> Any:
    """Return the bounds on the device of ``like``; cached, because every launch needs them."""
    import torch

    key = (like.device, *bounds.tolist())
    if key not in _bounds:
        if len(_bounds) > 100:
            _bounds.clear()
        _bounds[key] = to_tensor(bounds, like.device, torch.int32)
    return _bounds[key]

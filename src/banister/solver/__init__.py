"""The solver: minimise over data seen only as sums.

`Passes` binds a rank to rows in memory or to a pool; `solve` finds the best fit from several starts,
`minimise` descends from one. Pools: `LocalPool` (threads), `DiskPool` (a packed folder, larger than memory),
`RayPool` (other processes and machines).
"""

from banister.solver.cluster import RayPool
from banister.solver.descent import Solution, minimise
from banister.solver.information import regular
from banister.solver.local import DiskPool, LocalPool, as_pool
from banister.solver.low_rank import fitted_numbers, fitted_share, noise_norm
from banister.solver.passes import Passes
from banister.solver.point import Point
from banister.solver.pool import Pool, Sums, Trip
from banister.solver.spectra import Spectra, from_raw, top_singular_value, top_vectors
from banister.solver.starts import AGREE, explains, nothing_left, ranked, solve
from banister.solver.whitening import Whitening
from banister.solver.work import RayWorkers, Threads, Workers, as_workers

__all__ = [
    "AGREE",
    "DiskPool",
    "LocalPool",
    "Passes",
    "Point",
    "Pool",
    "RayPool",
    "RayWorkers",
    "Solution",
    "Spectra",
    "Sums",
    "Threads",
    "Trip",
    "Whitening",
    "Workers",
    "as_pool",
    "as_workers",
    "explains",
    "fitted_numbers",
    "fitted_share",
    "from_raw",
    "minimise",
    "noise_norm",
    "nothing_left",
    "ranked",
    "regular",
    "solve",
    "top_singular_value",
    "top_vectors",
]

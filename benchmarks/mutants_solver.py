"""Deliberate faults in the solver, from its compiled loops to its pools: each must make a test fail.

    python benchmarks/mutants_solver.py             # all of them; exit code 1 if one survives
    python benchmarks/mutants_solver.py kernels edge # those whose path or name contains one of these words

Run by `mutation.py`, compiled, because its loops are long and some exist only compiled: a fault in a kernel takes some 20 seconds of compiling.
"""

from __future__ import annotations

from mutation import main, mutants

_DESCENT, _POOLS = ["test_varpro.py"], ["test_pools.py"]

TESTS = {
    "solver/kernels.py": ["test_kernels.py"],
    "solver/descent.py": _DESCENT,
    "solver/starts.py": [*_DESCENT, "test_rank.py"],
    "solver/spectra.py": [*_DESCENT, "test_rank.py"],
    "solver/whitening.py": _DESCENT,
    "solver/low_rank.py": ["test_rank.py", "test_shrinkage.py"],
    "solver/information.py": ["test_confidence.py"],
    "solver/passes.py": _DESCENT,
    "solver/block.py": ["test_kernels.py", *_POOLS],
    "solver/rows.py": _POOLS,
    "solver/pool.py": _POOLS,
    "solver/pack.py": _POOLS,
    "solver/folder.py": _POOLS,
    "solver/threads.py": _POOLS,
}

MUTANTS = [
    *mutants(
        "solver/kernels.py",
        ("unrefined", "        w[a] += dot(Minv[a], L[0])", "        pass", "coefficients carry the ridge of the arithmetic"),
        ("single", "s += np.float64(a[i]) * np.float64(b[i])", "s = a.dtype.type(s + a[i] * b[i])", "float32 sums lose their digits"),
        ("pivot", "1.0 / np.sqrt(max(s, ridge))", "1.0 / np.sqrt(s)", "a task with few rows gives NaN"),
        ("weightless", "scale, rows = -weight[t] * w[a]", "scale, rows = -w[a]", "the gradient forgets the tasks' weights"),
        ("spread", "spread[a, b] += rows * w[b]", "spread[a, b] += w[a] * w[b]", "the damping forgets how many rows a task has"),
        ("ridge-value", "(dot(e, e) + ridge * dot(w, w))", "dot(e, e)", "the value does not count the ridge"),
        ("ridge-solve", "s = h[a] - ridge * w[a]", "s = h[a]", "the refinement undoes the ridge"),
        ("not-exact", "dot(Dt[a], V[t]) if exact else 0.0", "0.0", "the exact Hessian is Gauss-Newton's"),
        ("exact-sign", "along * v[j] - against * V[t, j]", "along * v[j] + against * V[t, j]", "the exact Hessian is another one"),
        ("moments-half", "gram[t, b, a] = gram[t, a, b]", "pass", "half of a moment is left over from before"),
        ("prior", "invert_gram(K, 1.0, Kinv, L)", "invert_gram(K, 0.0, Kinv, L)", "posteriors forget the prior"),
        ("last-column", "        if k < r:\n            b0 = Bt[k]", "        if False:\n            b0 = Bt[k]", "odd ranks lose a direction"),
        ("last-rows", "    while i < hi:\n        x0 = X[i]", "    while False:\n        x0 = X[i]", "rows beyond a multiple of four are lost"),
    ),
    *mutants(
        "solver/descent.py",
        ("uphill", "if actual > 1e-4 * predicted:", "if True:", "steps that raise the objective are taken"),
        ("early", "converged = small and actual <= tol * state.f / 2", "converged = True", "the first step is the last"),
        ("unprojected", "out: Float = D - self.B @ (self.B.T @ D)", "out: Float = D", "steps leave the manifold's tangent"),
        ("not-orthonormal", "moved @ (vectors / np.sqrt(values)) @ vectors.T", "moved", "the basis is not orthonormal"),
        ("coordinates", "return Solution(Q, R @ W.T,", "return Solution(Q, W.T,", "coefficients are of another basis"),
        ("never-damped", "mu, growth = mu * growth, growth * 2", "mu, growth = mu, growth", "a refused step is tried for ever"),
        ("concave", "        if curvature <= 0.0:\n            break", "", "a direction of negative curvature is followed"),
        ("zero", "return float((100 * np.finfo(passes.pool.dtype).eps) ** 2 * passes.energy)", "return float(passes.energy)", "any fit passes for exact"),
        ("passes", "passes.count - start < max_passes and", "", "a limit on passes is not kept"),
    ),
    *mutants(
        "solver/starts.py",
        ("trusted", "if first.converged and explains(passes, whitening, first):", "if first.converged:", "a local optimum is trusted"),
        ("itself", "[1 if warm is None else 0 :]", "[0:]", "a descent that meets itself proves its optimum"),
        ("worse", "elif other.objective < best.objective:", "elif False:", "a better optimum is thrown away"),
        ("met-once", "return best, met >= 2", "return best, True", "an optimum that nothing met is trusted"),
        ("weak", "_CLEAR = 6.0", "_CLEAR = 0.0", "noise passes for a direction"),
        ("left", "    left = whitening.A.T @ passes.residual_moment() @ whitening.A", "    return True", "residuals may hold a direction more"),
        ("ridge-left", "    passes.ridge = 0.0\n    return B", "    return B", "later descents minimise something else"),
        ("order", 'return [starts[i] for i in np.argsort(values, kind="stable")]', "return starts", "the worst start goes first"),
    ),
    *mutants(
        "solver/spectra.py",
        ("smallest", "subset_by_index=(d - count, d - 1)", "subset_by_index=(0, count - 1)", "starts are the least directions"),
        ("unscaled", "moment = self._whitened(self._sums[0])\n", "moment = self._sums[0]\n", "units set the rank"),
    ),
    *mutants(
        "solver/low_rank.py",
        ("edge", "math.sqrt(dim) + math.sqrt(n_tasks)", "math.sqrt(dim)", "noise of many tasks passes for signal"),
        ("numbers", "rank * (dim + n_tasks - rank)", "rank * (dim + n_tasks)", "shared numbers are counted twice"),
        ("no-rows", "/ max(rows, 1.0)", "/ rows", "no rows at all are divided by"),
    ),
    *mutants(
        "solver/whitening.py",
        ("drowned", "<= 1.0)", "<= 1e300)", "a direction that the ridge drowned passes for whitened"),
        ("no-ridge", "C + _RIDGE * level * np.eye(pool.dim)", "C", "features that do not vary end the fit"),
    ),
    *mutants(
        "solver/information.py",
        ("gauge", "G -= spanned @ np.swapaxes(cross[first:last], 1, 2)", "pass", "what coefficients take up counts as information"),
        ("singular", "ridge = np.where(trace > 0, 1e-10 * trace / r, 1e-10)", "ridge = 0 * trace", "tasks with few rows end the fit"),
    ),
    *mutants(
        "solver/passes.py",
        ("uncounted", "        self.count += 1\n        self._point = Point(B, self.ridge, self.weights)", "        self._point = Point(B, self.ridge, self.weights)", "passes are not counted"),
        ("elsewhere", "if at is not None and at is not self._point.B:", "if False:", "a Hessian is of the last trial's point"),
    ),
    *mutants(
        "solver/block.py",
        ("stale", "if not point.same(self._at):\n                self._fill(data, point)", "if False:\n                self._fill(data, point)", "a Hessian is of another point"),
        ("stale-moment", "if not point.same(self._at):\n            self.gradient(point)", "if False:\n            self.gradient(point)", "a moment is of another point"),
        ("stride", "X = data.X[-self._start % stride :: stride].astype(np.float64, copy=False)", "X = data.X[::stride].astype(np.float64, copy=False)", "a sample depends on where blocks are cut"),
        ("uneven", "cuts[0], cuts[-1] = 0, n_tasks", "pass", "tasks without rows at the end are lost"),
        ("taken", "- self.first\n        with self._rows() as data:\n            rows =", "\n        with self._rows() as data:\n            rows =", "a sample is of other tasks"),
        ("energy", "np.repeat(weights[self.first : self.last], data.counts)", "np.repeat(weights[: self.last - self.first], data.counts)", "weights are of other tasks"),
        ("weights", "point.weights[self.first : self.last]", "point.weights[: self.last - self.first]", "weights are of other tasks"),
    ),
    *mutants(
        "solver/pool.py",
        ("first-part", "    for part in parts[1:]:\n        total += part", "", "all blocks but the first are lost"),
        ("alias", "total: Float = np.array(parts[0])", "total: Float = parts[0]", "sums overwrite a block's own"),
    ),
    *mutants(
        "solver/rows.py",
        ("offset", "data.offsets[first : last + 1] - lo", "data.offsets[first : last + 1]", "a block's rows are others"),
    ),
    *mutants(
        "solver/folder.py",
        ("unfinished", "        if failed is None:\n            self._finish()", "        self._finish()\n        if failed is None:\n            pass", "a folder that was not finished is served"),
        ("in-the-way", "                (self.path / name).unlink()", "                pass", "half a folder is in the way of another attempt"),
        ("sizes", "if found != size:", "if False:", "a folder that was cut is served"),
        ("format", 'if facts.get("format") != FORMAT:', "if False:", "a folder of another format is read"),
        ("order", 'np.argsort(codes, kind="stable")', "np.arange(len(codes))", "rows land in other tasks"),
        ("page", "count=last - first, offset=lo - start)", "count=last - first, offset=0)", "rows begin elsewhere"),
        ("overwritten", "if any(self.path.iterdir()):", "if False:", "a folder is written over"),
    ),
    *mutants(
        "solver/pack.py",
        ("unlabelled", "if tally[task].null_count():", "if False:", "rows without a task are packed"),
        ("kinds", "if len(np.unique(labels)) < data.n_tasks:", "if False:", "1 and '1' become one task"),
    ),
]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main(MUTANTS, TESTS))

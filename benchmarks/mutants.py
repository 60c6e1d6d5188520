"""Deliberate faults in the path from rows to decisions: each must make a test fail.

    python benchmarks/mutants.py             # all of them; exit code 1 if one survives
    python benchmarks/mutants.py hidden tail # those whose name contains one of these words

Each fault is put into a copy of the sources, alone, and the tests named for its file run against it until the
first fails. A fault that no test notices is printed: the screw it loosens is held by nothing. To add one, add
a line to `MUTANTS`; the text must stand in the file exactly once.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # testing uncompiled takes less time than compiling

import hypothesis  # noqa: F401
import numba  # noqa: F401
import numpy  # noqa: F401
import pytest
import scipy.stats  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/banister"
_NOT_RACING = ["-k", "not background"]  # uncompiled, a fit in the background comes late by itself
_SAID = "pytest.txt"  # what the last tests printed


class Mutant(NamedTuple):
    """A fault: where, what stands there, what it becomes, and what goes wrong then."""

    name: str
    path: str
    text: str
    fault: str
    why: str


TESTS = {  # the tests that a fault in a file must fail, quickest first
    "safety/frame.py": ["test_frame.py", "test_belief.py"],
    "safety/factors.py": ["test_factors.py"],
    "safety/posterior.py": ["test_posterior.py"],
    "safety/_posterior_kernels.py": ["test_posterior.py"],
    "safety/rows.py": ["test_posterior.py", "test_hierarchy.py"],
    "safety/hierarchy.py": ["test_hierarchy.py", "test_belief.py"],
    "safety/passes.py": ["test_hierarchy.py", "test_belief.py"],
    "safety/widening.py": ["test_widening.py"],
    "safety/labels.py": ["test_labels.py"],
    "safety/seen.py": ["test_belief.py"],
    "safety/believer.py": ["test_belief.py"],
    "safety/noise.py": ["test_noise.py"],
    "safety/_kernels.py": ["test_judge.py", "test_compact.py"],
    "safety/_matrix_kernels.py": ["test_compact.py", "test_stored.py"],
    "safety/stored.py": ["test_stored.py"],
    "safety/compact.py": ["test_stored.py"],
    "safety/parts.py": ["test_parts.py"],
    "safety/gates.py": ["test_gates.py"],
    "safety/watch.py": ["test_watch.py"],
    "safety/wild.py": ["test_wild.py"],
    "safety/past.py": ["test_journal.py"],
    "learner/memory.py": ["test_memory.py", "test_journal.py"],
    "learner/journal.py": ["test_journal.py"],
    "learner/learner.py": ["test_learner.py", "test_judge.py"],
    "learner/account.py": ["test_account.py", "test_online_draws.py"],
    "learner/drawer.py": ["test_online_draws.py"],
    "safety/promise.py": ["test_account.py", "test_online_draws.py"],
    "safety/draw.py": ["test_draw.py", "test_online_draws.py"],
    "safety/_draw_kernels.py": ["test_draw.py"],
    "safety/betting.py": ["test_betting.py", "test_account.py"],
    "safety/_betting_kernels.py": ["test_betting.py"],
    "safety/_budget_kernels.py": ["test_betting.py"],
    "safety/uplift.py": ["test_uplift.py"],
    "online/redraw.py": ["test_online_draws.py"],
    "online/posting.py": ["test_online_draws.py"],
    "policies/certified_mode.py": ["test_safe_altgdmin.py"],
}


def _mutants(path: str, *rows: tuple[str, str, str, str]) -> list[Mutant]:
    return [Mutant(name, path, text, fault, why) for name, text, fault, why in rows]


MUTANTS = [
    *_mutants(
        "learner/account.py",
        ("unexposed", "            self.budget.expose(task, pi_b, self.free)", "            pass", "draws that wait cost nothing"),
        ("unsettled", "            self.budget.settle(draw.task, draw.pi_b, self.free)\n            self.budget.update", "            self.budget.update", "what has come waits for ever"),
        ("no-expiry", "            if not now - draw.time > limit:", "            if True:", "missing rewards are waited for"),
        ("kind-expiry", "self.usual(draw.task) if draw.is_baseline else self.uplift.low", "self.usual(draw.task)", "what left and never came counts as usual"),
        ("old-savings", "        for row in rows:\n", "        for row in ():\n", "savings of an old world are spent"),
        ("kept-mistake", "            self.budget.reset(task)\n            self.budget.reset(self.budget.fleet)", "            pass", "savings that a wrong reward swelled are spent"),
        ("never-stops", 'if self.terms.on_harm != "stop" or self.budget is None:', "if True:", "harm does not stop draws"),
        ("no-growth-cap", "limit = (paid, BUDGET) if paid <= grown else (grown, GROWTH)", "limit = (paid, BUDGET)", "draws shrink the budget"),
        ("inexact-undo", "            self.budget.exposure[: len(before) - 1] = before[:-1]", "            pass", "a failed batch is paid for"),
    ),
    *_mutants(
        "learner/drawer.py",
        ("unpaid", "        caps = {name: p}", "        caps = {name: 1.0}", "nothing is paid for"),
        ("no-fleet-cap", "            caps[DECISION] = self._cap(", "            _ = self._cap(", "the fleet pays for harm to a task"),
        ("shut-gate", "        if not self.learner.gates.is_open(task):\n            return self.terms.free", "        if False:\n            return self.terms.free", "a shut gate lets draws pass"),
        ("no-holdout", "            probabilities[baseline] = self.terms.holdout", "            probabilities[baseline] = 0.0", "a certificate's choice leaves no baseline"),
    ),
    *_mutants(
        "safety/promise.py",
        ("no-range", "        if self.promise.paid_from_savings and self.reward_range is None:", "        if False:", "savings are counted without a range"),
        ("unheld", "        if self.promise.paid_from_savings and self.holdout < _LEAST_HOLDOUT:", "        if False:", "nothing is left to compare with"),
        ("too-free", "return free_share(self.alpha, self.reward_range[0], r_b_high=self.reward_range[1])", "return self.alpha", "a range below zero makes exploring free"),
    ),
    *_mutants(
        "safety/draw.py",
        ("no-holdout-cap", "((1.0 - holdout, HOLDOUT), (wished.p, WISH))", "((wished.p, WISH),)", "the baseline's share vanishes"),
        ("last-cap", "        if cap < p:", "        if True:", "the cap that was named last holds"),
        ("one-width", "_SINGLE(LEAVE), _SINGLE(search)", "_SINGLE(LEAVE), _SINGLE(LEAVE)", "tasks stay with the first that looked well"),
        ("too-wide", "_SINGLE(LEAVE), _SINGLE(search)", "_SINGLE(search), _SINGLE(search)", "a harmful world costs half as much again"),
        ("unkeyed", "blake2b(decision.encode(), digest_size=8, key=key)", "blake2b(decision.encode(), digest_size=8)",
         "every store draws alike"),
    ),
    *_mutants(
        "safety/_draw_kernels.py",
        ("tie-leaves", "            if value > most:", "            if value >= most:", "what ties with the baseline is played instead"),
        ("falls-on-nothing", "        if probabilities[k] > 0.0:", "        if True:", "an action of probability 0 is played"),
        ("no-inside", "_INSIDE = 1e-9", "_INSIDE = -1e-9", "a cap lies beyond its floor"),
    ),
    *_mutants(
        "safety/betting.py",
        ("free-pending", "left = self.usable(row) - _b.cost(", "left = self.usable(row) - 0.0 * _b.cost(", "what waits is spent twice"),
        ("mean-always", 'if s.pending == "range" or plays == 0:', "if plays == 0:", "a task's promise rests on an unnamed assumption"),
        ("no-brake", "min(self.bound(row), self._low(self.recent[row]))", "self.bound(row)", "savings of an old world are burnt"),
        ("never-ready", "        return self._low(self.wealth[row]) if self.ready else 0.0", "        return self._low(self.wealth[row]) + 1.0 if self.ready else 0.0",
         "a bound that claims one too much"),
    ),
    *_mutants(
        "safety/_betting_kernels.py",
        ("unweighted", "(y - k) / pi_b if played_baseline", "(y - k) if played_baseline", "savings are counted without probabilities"),
        ("ruin", "size = min(rates[j], largest)", "size = rates[j]", "a bet can lose more than there is"),
        ("unsettled-rate", "(rates[j] - size) * certain", "0.0", "a bet that was cut short claims its full rate"),
        ("odds", "(top + np.log(total) - log_odds)", "(top + np.log(total))", "bounds hold with no confidence at all"),
        ("harm-kept", "max(harm[j], 0.0)", "harm[j]", "a good past hides a fall"),
    ),
    *_mutants(
        "safety/_budget_kernels.py",
        ("hindsight", "            _describe(sums[row], played_baseline[i], y[i], k)\n", "", "nothing is ever counted"),
        ("certain-free", "certain = 0.0 if p <= free else min(", "certain = 0.0 if True else min(", "a paid draw is taken for a free one"),
        ("no-alarm", "    if log_mean(harm, weights) > alarm:", "    if False:", "harm rings no alarm"),
        ("alarm-spends", "        recent[:] = 0.0", "        pass", "savings are spent after an alarm"),
        ("free-affordable", "    if left <= 0.0:", "    if False:", "nothing is left and it is spent"),
        ("fleet-waits-not", "    for row in (task, sums.shape[0] - 1):\n        sums[row, EXPOSED]", "    for row in (task,):\n        sums[row, EXPOSED]",
         "the fleet does not wait for what its tasks wait for"),
    ),
    *_mutants(
        "safety/uplift.py",
        ("unweighted-gain", "((y - k) / pi_b if played_baseline else 0.0)", "((y - k) if played_baseline else 0.0)", "uplift without probabilities"),
        ("one-sided", "odds = np.log(2.0 / (1.0 - self.confidence))\n        low", "odds = 0.0\n        low", "an interval of no confidence"),
    ),
    *_mutants(
        "online/redraw.py",
        ("any-action", "    if drawn != record.action:", "    if False:", "an action that was not drawn passes"),
        ("any-share", "    elif p > max(terms.free, account.allowance(record.task).p) + _CLOSE:", "    elif False:", "a draw that nothing paid for passes"),
        ("any-odds", "    if not np.array_equal(made.probabilities, odds) or", "    if", "probabilities of another belief pass"),
    ),
    *_mutants(
        "safety/frame.py",
        ("offered", "shown = offered if len(offered) else played", "shown = played", "played actions set the unit"),
        ("offsets", "_OFFSET = 3.0", "_OFFSET = 1e9", "a column around a large mean is taken for a constant"),
        ("no-intercept", "not bool(constant.any())", "False", "levels are forced through zero"),
        ("two-intercepts", "not bool(constant.any())", "True", "a constant feature counts twice"),
        ("negligible", "_NEGLIGIBLE = 1e-13", "_NEGLIGIBLE = 1e-3", "small features are rounded away"),
        ("overflow", "squares = np.mean((X / safe) ** 2, axis=0)", "safe = 1.0; size = 1.0; squares = np.mean(X**2, axis=0)",
         "units of 1e200 overflow"),
    ),
    *_mutants(
        "safety/factors.py",
        ("rest-lost", "rows, rest[tasks] = factor[:, :p], factor[:, p, p] ** 2", "rows = factor[:, :p]",
         "noise of many rows is lost"),
        ("label-weight", "1 / np.sqrt(label_variance)", "1 / np.sqrt(noise)", "labels weigh as rewards"),
    ),
    *_mutants(
        "safety/posterior.py",
        ("shrunk-precision", "self.LHL + (_FREE * size + _NOTHING)[:, None, None] * np.eye(k)", "self.LHL + np.eye(k)",
         "coefficients that are noise pass for information"),
        ("spent-own-only", "more: Float = 1.0 + shared / np.maximum(total, 1e-300)", "more: Float = 1.0 + 0 * total",
         "what all rows learned together costs no degrees of freedom"),
        ("open-forgotten", "symmetric(V + away @ opened @ _turned(away))", "symmetric(V)",
         "what is shared counts as known"),
        ("labels-as-plays", "left = left[:, : self.info.plays]", "left = left[:, :]",
         "labels count as rewards' noise"),
        ("stale-left-over", "in (\"_white\", \"v\", \"packed\", \"b\")", "in (\"_white\", \"v\", \"packed\", \"b\", \"_coefficients\")",
         "old coefficients kept"),
        ("pairs-apart", "np.sqrt(pairs.share)[:, None] * left + pairs.play", "np.sqrt(pairs.share)[:, None] * left",
         "what parts a play from its label is no noise"),
        ("pairs-spent", "plays = self.info.pairs.share * total", "pass", "labels cost plays their degrees of freedom"),
    ),
    *_mutants(
        "safety/_posterior_kernels.py",
        ("no-correction", "(W[t, i, j] - lost[i, j]) * PW[t, i, j]", "W[t, i, j] * PW[t, i, j]",
         "maximum likelihood in place of restricted"),
        ("pivot", "factor[i, i] = 1.0 if pivot < 1.0 else np.sqrt(pivot)", "factor[i, i] = np.sqrt(pivot)",
         "rounding takes the root of less than nothing"),
    ),
    *_mutants(
        "safety/passes.py",
        ("exact", "EXACT = 100.0", "EXACT = 1e6", "a label outweighs all rewards by itself"),
        ("moderate-off", "self.noise = lifted(moderate(own, told), np.maximum(n, 1e-9), self.rows.telling)", "pass",
         "one noise level for all tasks"),
        ("interpolated", "1e-4 if freedom.sum() < 0.1 * n.sum() else LEAST_NOISE", "LEAST_NOISE",
         "residuals of an interpolation pass for noise"),
        ("kept-all", "self.kept = ~outlying(rss / np.maximum(freedom, 1e-9), np.minimum(freedom, self.rows.telling))", "pass",
         "one odd task widens all"),
        ("label-level", "self.label_level = max(least, float(self.label_rss.sum()) / max(freedom, 1.0))", "self.label_level = least",
         "labels count as more exact than the model is"),
        ("turns", "(np.eye(p) - inside) / (self.size + size)", "(np.eye(p) - inside) / self.size", "unlinked features cannot turn"),
        ("never-drop", "_DROP = (7, 12)", "_DROP = ()", "directions on trial stay"),
        ("never-add", "_ADD = (1, 3, 5, 9, 10)", "_ADD = ()", "nothing is shared"),
        ("edge", "(1 + np.sqrt(dims / max(n_tasks, 1))) ** 2", "1.0", "noise passes for a direction"),
        ("rank-cap", "min(most, rows.most_directions())", "rows.most_directions()", "the rank given is ignored"),
        ("unseen", "self.size < 0.05", "self.size < 0.0", "what no row tells counts as seen"),
        ("spread", "np.sqrt(2 / np.maximum((expected**2)", "0.1 * np.sqrt(2 / np.maximum((expected**2)",
         "the left-over's variance counts as known"),
        ("warm-cold", "0 if start is None else PASSES - _WARM", "0", "a warm start takes as long as a cold one"),
        ("outlying", "_OUTLYING = 3.0", "_OUTLYING = 300.0", "no task is unlike the others"),
    ),
    *_mutants(
        "safety/rows.py",
        ("most", "if needed(k, p, n_tasks) <= rows)", "if True)", "more parameters than rows carry"),
        ("paired", "return np.array_equal(self.plays.R, self.labels.R)", "return self.plays.R.shape == self.labels.R.shape",
         "labels of other actions pass for labels of what was played"),
    ),
    *_mutants(
        "safety/hierarchy.py",
        ("start-units", "s.L * units[:, None], s.D * units**2", "s.L * units[:, None], s.D", "D in the wrong unit"),
    ),
    *_mutants(
        "safety/seen.py",
        ("clicks", "_CLICKS = 2", "_CLICKS = 0", "a handful of clicks is explained perfectly"),
    ),
    *_mutants(
        "safety/widening.py",
        ("hidden", "HIDDEN = 25.0", "HIDDEN = 1.0", "a selective baseline hides the left-over"),
        ("tails-off", "return float(student.isf(norm.sf(z), max(n_tasks - rank - 1, 1)) / z) ** 2", "return 1.0", "directions of few tasks count as known"),
        ("unseen-small", "np.where(unseen, hierarchy.size, np.maximum(", "np.where(unseen & False, hierarchy.size, np.maximum(",
         "what was never seen counts as nothing"),
        ("sure", "_SURE = 3.0", "_SURE = 30.0", "a left-over that surely shows is averaged away"),
        ("significant", "_SIGNIFICANT = 2.0", "_SIGNIFICANT = 20.0", "a common left-over is not multiplied"),
        ("largest", "_LARGEST = 100.0", "_LARGEST = 1.0", "left-overs are cut"),
        ("rank-zero", "if hierarchy.shared.rank == 0 else 1.0", "if False else 1.0", "early left-overs count as known"),
        ("odd-noise-off", "if odd.any():", "if False:", "a task off the shared directions passes for noise"),
        ("lean-off", "if not told.any():", "if True:", "a level that comes from a lean is taken for a level"),
        ("lean-threshold", "> 3 * np.sqrt(2 * d * told.sum())", "> -1e9", "every lean counts"),
        ("lean-size", "added = square / lean / dim", "added = square / dim",
         "the lean's length is left out"),
        ("unequal-off", "return max(1.0, float((weight * square).sum() / weight.sum()) / plain)", "return 1.0",
         "noise that grows with features is taken for even"),
        ("unequal-narrow", "return max(1.0, float((weight", "return max(0.0, float((weight", "bounds get narrower"),
        ("own-off", "odd = np.flatnonzero(found > expected + _ODD * chance)", "odd = np.flatnonzero(found < -1.0)",
         "odd tasks are as the others"),
        ("own-threshold", "_ODD = 2.0", "_ODD = 3.0", "odd tasks are found too late"),
        ("own-steps", "_ODD_STEPS = 10", "_ODD_STEPS = 1", "an odd task's size is not reached"),
        ("own-hidden", "return np.minimum(HIDDEN * scale,", "return np.minimum(scale,",
         "what an odd task hides"),
        ("added-lost", "scale[:, None] * shared.D + added[:, None]", "scale[:, None] * shared.D",
         "added variance does not arrive"),
    ),
    *_mutants(
        "safety/labels.py",
        ("averages-off", "found[t] = bool(same and", "found[t] = bool(False and", "averages pass for expectations"),
        ("averages-fixed", "> _MOVES)\n    return found", ">= 0.0)\n    return found", "fixed baselines pass for averages"),
        ("least-rows", "_LEAST_ROWS = 10", "_LEAST_ROWS = 1", "a single reward bears claims out"),
        ("depends-off", "if depends(task, Z, y - claim):", "if False:", "what claims leave out is not looked for"),
        ("pairs-off", "if statistic > _DEPENDS * np.sqrt(max(variance, 1e-300)):", "if False:", "tasks' own misfits pass"),
        ("pairs-threshold", "_DEPENDS = 4.5", "_DEPENDS = 9.0", "misfits pass for chance"),
        ("overall-off", "return bool(overall > p + 5 * np.sqrt(2 * p) + 10)", "return False", "common misfits pass"),
        ("rises-off", "slope >= _RISES * error and", "", "claims that say nothing pass"),
        ("one-off", "and abs(slope - 1) <= _OFF_ONE * error + _OFF_EXACT", "", "claims of another size pass"),
        ("rounding-off", "_OFF_EXACT = 0.02", "_OFF_EXACT = 0.0", "rounded claims are refused"),
        ("between-tasks", "centred: Float = values - means[task]", "centred: Float = values - values.mean()",
         "levels bear out what varies within tasks"),
        ("fixed", "return not vary", "return True", "averages of few requests pass"),
        ("average-labels", "return Trust(Claims.BORNE_OUT, ~average)", "return Trust(Claims.BORNE_OUT, average | True)",
         "averages become labels where others are right"),
    ),
    *_mutants(
        "safety/believer.py",
        ("quantile-half", "return float(norm.isf((1 - self.confidence) / count))",
         "return float(norm.isf((1 - self.confidence) / count)) / 2", "bounds of half the width"),
        ("union-off", "count = self.decisions or max(2 * decisions, 100 * n_tasks)", "count = 1", "each bound for itself"),
        ("sticky-off", "if self.last is not None and self.last.claims is Claims.CONTRADICTED:", "if False:",
         "contradicted claims come back"),
        ("distrust-off", "used = np.flatnonzero((place >= 0) & trusted.labelled[place])", "used = np.flatnonzero(place >= 0)",
         "every claim is a label"),
        ("noise-unequal", "noise, opened = settled.unequal * settled.noise.variance,", "noise, opened = settled.noise.variance,",
         "unequal noise is not used"),
        ("open-unequal", "hierarchy.open.times(settled.unequal)", "hierarchy.open.times(1.0)",
         "nor in what is open"),
        ("lean-lost", "added += self._lean(g.leaning, g.played).added(g.square, self.frame.dim)", "pass",
         "the lean is not used"),
        ("odd-lost", "added = widening.odd_noise(g.raw / np.maximum(g.freedom, 1e-9), told, self.frame.dim)", "added = np.zeros(T)",
         "odd noise is not used"),
        ("tails-lost", "np.sqrt(kappa) * hierarchy.shared.L", "hierarchy.shared.L", "tails are not used"),
        ("left-lost", "widening.left_over(hierarchy, kappa)", "hierarchy.shared.D", "the left-over is not widened"),
        ("left-error-lost", "left=widening.left_over_error(hierarchy)", "left=0 * widening.left_over_error(hierarchy)",
         "the left-over's error is not used"),
        ("student-off", "z=self._placed(student.isf(norm.sf(self.z), freedom))", "z=self._placed(np.full(len(freedom), self.z))",
         "noise of few rows counts as known"),
        ("label-error", "label_error=float(np.sqrt(hierarchy.label_level))", "label_error=0.0", "exact labels are points"),
        ("warm-for-ever", "self.n_rows >= 2 * last.start.rows", "False",
         "a wrong turn is where all later fits begin"),
        ("warm-claims", "or last.claims is not trusted.verdict", "", "a fit without labels is where one with labels begins"),
        ("usual-raw", "/ (noise[task[told]] * np.sqrt(1 - share[told]))", "/ noise[task[told]]", "residuals look too small"),
        ("unknown-known", "known=self._placed(np.ones(len(self.tasks), dtype=bool))", "known=np.ones(self.n_tasks, dtype=bool)",
         "tasks without rows are served"),
        ("constant-rewards", "if not telling(seen.y, dim + 1, seen.past):", "if len(seen.y) == 0:",
         "rewards that never vary are believed to have no noise"),
        ("zeros", "telling = np.where(most > 1, n - most, n)", "telling = n",
         "zeros alone tell a noise of nothing"),
        ("rank-lost", "fit(data.sample(self._sampled()), start, self.by.rank)", "fit(data.sample(self._sampled()), start)",
         "the rank is ignored"),
        ("sample-off", "if T <= _SAMPLED:", "if True:",
         "many tasks cost much"),
    ),
    *_mutants(
        "safety/noise.py",
        ("shrink-off", "shrunk = (prior * level + own * np.where(used, variance, 0.0)) / (prior + own)", "shrunk = variance",
         "each task's few rows tell its noise"),
    ),
    *_mutants(
        "safety/parts.py",
        ("two-parts", "if (touched.sum(axis=0) > 1).any():", "if False:", "a row in two parts counts in one"),
        ("left-off", "left.append(rest)", "pass", "what parts leave in shared columns is lost"),
    ),
    *_mutants(
        "safety/_matrix_kernels.py",
        ("open-off", " + _quadratic_packed(of.O, away)", "", "the shared part counts as known"),
        ("more-off", "    return of.more * total", "    return total", "coarse rows count as exact"),
        ("more-away", "    away *= np.sqrt(of.more)", "    pass", "the left-over's doubt counts coarse rows as exact"),
        ("cheap-high", "(1.0 - _DIGITS) * prior - known", "2.0 * prior - known", "what would pass is refused unseen"),
        ("blunt-test", "return 1.0 if isinstance(of, Dense) else (2.0 - of.more) / of.more", "return 1.0",
         "coarse rows hide a contradicted label"),
        ("completed", "        _turn_dense(of, x, own)\n", "        pass\n", "dense beliefs keep another action's left-over"),
    ),
    *_mutants(
        "safety/stored.py",
        ("kappa", "epsilon / (1 - epsilon)", "0.1 * epsilon", "what rounding took from rows is forgotten"),
        ("omega-off", "(omega + UP *", "(0 * omega + UP *", "rounding moves what is open of the shared part"),
        ("lambda-off", "(omega + UP * (self.left / D).max(axis=1))", "omega", "rounding moves the left-over's doubt"),
        ("fro", "size * fourth**0.25", "size / F.shape[1] * fourth**0.25", "a norm that bounds nothing"),
        ("too-coarse", "(more <= MOST).all() and", "", "one task is made far wider for its block's sake"),
    ),
    *_mutants(
        "safety/compact.py",
        ("more-matrix", "return self.more[t] * V[0],", "return V[0],", "matrices of coarse rows count as exact"),
    ),
    *_mutants(
        "safety/_kernels.py",
        ("hopeless-label", "if not passes and not (label and unsure):", "if not passes:",
         "a label that is unsure ends what a comparison could certify"),
        ("up", "UP = 2.0", "UP = 0.0", "the left-over's variance counts as known"),
        ("up-label", "narrowed += _left_over(own, own_b, beta, left)", "pass",
         "the left-over's variance counts as known beside a label"),
        ("z", "return mean - z * np.sqrt(max(variance, 0.0))", "return mean - z / 2 * np.sqrt(max(variance, 0.0))",
         "bounds of half the width"),
        ("nan-guard", "mean * mean):\n        return -np.inf", "mean * mean):\n        return mean",
         "a variance that is not a number bounds something"),
        ("negative-guard", "if not variance >= -1e-9 * (1.0 + mean * mean):", "if not variance == variance:",
         "a negative variance counts as none"),
        ("label-floor", "noise = max(error, label_error) ** 2", "noise = error**2", "exact labels are points"),
        ("surprise-off", "if surprise * surprise > z * z * (doubt", "if surprise * surprise > 1e300 * (doubt",
         "a label that contradicts the belief is used"),
        ("surprise-left", "(doubt + sure * _left_over(own_b, own_b, 0.0, left))", "doubt", "a label is contradicted too soon"),
        ("disagrees-open", "gate[t] = DISAGREES\n", "", "a contradicted task is served again at once"),
        ("to-beat-off", "if not mean[k] > to_beat:", "if mean[k] != mean[k]:", "worse actions are played"),
        ("to-beat-label", "to_beat = r if label else mean_b", "to_beat = mean_b", "a label does not say what is to beat"),
        ("literal-swapped", "if literal and sign > 0:", "if not literal and sign > 0:", "the two floors are swapped"),
        ("floor-literal", "(reward if literal else abs(reward))", "(abs(reward) if literal else reward)", "so are they for labels"),
        ("untrusted-free", "if (not label and cleared) or (label", "if (not given and cleared) or (label",
         "a claim that is not believed stands for the baseline"),
        ("difference-any", "cleared = ahead >= 0.0", "cleared = cleared or ahead >= 0.0", "either bound is enough"),
        ("top-std", "top = r + z_of[t] * error if number else r", "top = r", "a label's error does not raise the floor"),
        ("shift-off", "moved = gain * surprise", "moved = 0.0", "a label moves nothing"),
        ("gain-off", "beta = cross * gain\n                narrowed", "beta = 0.0\n                narrowed", "a label narrows nothing"),
        ("baseline-again", "if k == index[i] or alike(actions[i, k], baseline[i]):", "if alike(actions[i, k], baseline[i]) and k != index[i]:",
         "the baseline is certified"),
        ("first-only", "if cleared:\n                chosen[i]", "if not cleared:\n                break\n            if cleared:\n                chosen[i]",
         "only the best is tried"),
        ("gate-ignored", "if gate[t] != OPEN:", "if gate[t] == -7:", "shut gates do not hold"),
        ("unit-lost", "chosen[i], bound[i], code[i] = k, lower * unit, CERTIFIED", "chosen[i], bound[i], code[i] = k, lower, CERTIFIED",
         "bounds in the belief's units"),
    ),
    *_mutants(
        "safety/gates.py",
        ("shut-all", "self.codes[self.codes == OPEN] = reason", "self.codes[0] = reason", "a change of all shuts one"),
        ("new-open", "np.where(belief.known, OPEN, shut)", "np.where(belief.known | True, OPEN, shut)", "unknown tasks are open"),
    ),
    *_mutants(
        "safety/watch.py",
        ("tail", "TAIL = 1e-6", "TAIL = 1.0", "alarms for nothing"),
        ("tail-small", "TAIL = 1e-6", "TAIL = 1e-30", "no alarm in time"),
        ("lean", "_LEAN = 2.0", "_LEAN = 0.0", "what selection adds passes for a drift"),
        ("bet", "    0.3  # on a shift", "    0.01  # on a shift", "shifts are noticed late"),
        ("rank-only", "bet_on_size(max(larger, 2.0 * _over(abs(u))))", "bet_on_size(larger)", "unfair where doubt outweighs noise"),
        ("normal-only", "bet_on_size(max(larger, 2.0 * _over(abs(u))))", "bet_on_size(2.0 * _over(abs(u)))", "unfair for heavy tails"),
        ("no-restart", "if logs[i] <= 0.0:", "if False:", "a long quiet time hides a change"),
        ("since", "most, since = logs[i], float(starts[i])", "most, since = logs[i], float(number)", "rows from before the alarm are lost"),
        ("again", "row[_RUNG] = 1.0", "pass", "the same alarm rings for ever"),
        ("all-off", "shared = apart > 0 and", "shared = False and", "a change of all is noticed task by task"),
        ("all-crowded", "rows[t, _LAST] >= apart", "rows[t, _LAST] >= 0", "one busy task passes for all"),
        ("few-residuals", "_LEAST = 100", "_LEAST = 0", "ranks among few say something"),
        ("unknown-watched", "if t >= n or not known[t]:", "if t >= n:", "tasks without a belief ring"),
        ("state-lost", "self._rows[task] = row", "self._rows[task, :_LAST] = row[:_LAST]", "what was put back is not as it was"),
    ),
    *_mutants(
        "learner/memory.py",
        ("forget-rows", "kept: Bool = number >= first[task]", "kept: Bool = number >= 0 * first[task]", "rows from before a drift count"),
        ("forget-less", "max(since, self.since.get(task, 0))", "since", "an older change takes back a newer one"),
        ("forget-task", "max(self.since.get(EVERY_TASK, 0), self.since.get(task, 0))", "self.since.get(task, self.since.get(EVERY_TASK, 0))",
         "a task's change takes back that of all"),
        ("wild-in", "plays[2] = tamed.y", "pass", "one wild reward shuts every gate"),
        ("absurd-in", "if tamed.left_out.any():", "if False:", "a task beyond arithmetic drowns the others"),
        ("old-periods", "kept = [(t, p) for t, p in self.plays.periods if p.first >= self._since(t)]", "kept = list(self.plays.periods)",
         "periods from before a drift count"),
        ("retracted-period", "gone.setdefault(task, []).append(np.r_[x, is_baseline, counted])", "pass", "rewards taken back stay in their periods"),
        ("retracted-size", "counted = next((p.tamed[number] for p in mine if number in p.tamed), y)", "counted = y",
         "a wild reward taken back takes more than it brought"),
        ("pairs-lost", "np.flatnonzero(which)[:-PAIRED]", "np.flatnonzero(which)", "claims are judged by nothing"),
        ("late-snapshot", "dict(self.since)", "self.since", "a snapshot changes"),
        ("retracted", "kept &= ~np.isin(number", "kept |= np.isin(number", "rewards taken back are learned from"),
        ("sample-old", "task, X = task[-SAMPLE:], X[-SAMPLE:]", "task, X = task[:SAMPLE], X[:SAMPLE]", "old offers stay"),
    ),
    *_mutants(
        "learner/journal.py",
        ("wild-period", "old, tamed.y[folded], number[folded]", "old, y[folded], number[folded]",
         "a wild reward is learned from for ever"),
        ("never-folded", "if self._size == self.limit:", "if False:", "memory grows with history"),
        ("never-joined", "while len(self.periods) > 1 and", "while False and", "periods grow with history"),
        ("moved-views", "self._columns = [_grown(column[kept], self.limit) for column in self.rows()]", "for c in self._columns:\n            c[: len(kept)] = c[kept]",
         "a snapshot changes while files are folded"),
        ("absurd-folded", "if tamed.left_out.any() or not folded.any():", "if not folded.any():", "what cannot be fitted is learned from for ever"),
    ),
    *_mutants(
        "safety/past.py",
        ("weightless", "Z[:, d] = weight", "Z[:, d] = 1.0", "a factor's rows count as rows"),
        ("origin", "(frame.shift - self.origin)", "frame.shift", "periods stand elsewhere"),
        ("first-lost", "min(self.first, later.first)", "later.first", "a drift keeps what is older"),
        ("negative", "told = values > _TOLD", "told = values > -np.inf * _TOLD", "directions of which nothing is left become NaN"),
    ),
    *_mutants(
        "safety/wild.py",
        ("light", "_POWER = 3", "_POWER = 0", "sales are taken for errors"),
        ("few", "FEW = 1 / 400", "FEW = 0.1", "harm that comes again is hidden"),
        ("fleet", "_FEW_IN_ALL = 3", "_FEW_IN_ALL = 10**9", "harm in many tasks is hidden"),
        ("beyond", "_BEYOND = 1e5", "_BEYOND = np.inf", "a task beyond arithmetic drowns the others"),
        ("own", "_OWN = 200", "_OWN = 10**9", "a task of another size is flattened"),
        ("least", "_LEAST = 20", "_LEAST = 1", "a handful of rewards says what is usual"),
        ("dropped", "np.clip(y, *_ends(task, y, ~(far | absurd)))", "0.0", "a very bad reward counts as none"),
    ),
    *_mutants(
        "learner/learner.py",
        ("alarm-open", "self.gates.shut(task, DRIFT)", "pass", "a drifted task is served"),
        ("alarm-remember", "self.memory.forget(task, since)", "pass", "rows from before a drift are learned from"),
        ("warm-after-drift", "None if EVERY_TASK in snapshot.since else last", "last", "the old world is where the new fit begins"),
        ("few", "_FEW = 3", "_FEW = 1", "one wrong claim forgets all"),
        ("share", "_SHARE = 0.05", "_SHARE = 0.9", "many wrong claims change nothing"),
        ("dated", "max(alarm.since, self._disagreed.get(alarm.task, 0))", "alarm.since", "a claim does not date a change"),
        ("claims-kept", "self._disagreed: dict[int, int] = {}", "self._disagreed: dict[int, int] = getattr(self, '_disagreed', {})",
         "wrong claims of old beliefs count"),
        ("settled", "_RARELY = 0.02", "_RARELY = 2.0", "refits stop while much is uncertain"),
        ("state", "self.gates.codes[:] = codes", "pass", "what was put back stays shut"),
        ("unwatched", "return self.check(task, x, y, number)", "return []", "rewards are not looked at"),
    ),
]  # fmt: skip


def stands(mutant: Mutant) -> bool:
    """Whether its text stands in its file exactly once; code that moved on leaves faults behind."""
    return (ROOT / PACKAGE / mutant.path).read_text().count(mutant.text) == 1


def survives(mutant: Mutant, folder: Path) -> bool:
    """Whether all tests pass with the fault in place."""
    target = folder / PACKAGE / mutant.path
    source = target.read_text()
    target.write_text(source.replace(mutant.text, mutant.fault))
    try:
        return _tests_pass(mutant.path, folder)
    finally:
        target.write_text(source)


def _tests_pass(path: str, folder: Path) -> bool:
    """Run in a child that has the heavy imports already."""
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        sys.dont_write_bytecode = True  # two faults a second apart could share one file of bytecode
        sys.path.insert(0, str(folder / "src"))
        with open(folder / _SAID, "w") as said:
            os.dup2(said.fileno(), 1)
        files = [str(ROOT / "tests" / name) for name in TESTS[path]]
        options = [
            "-x",
            "-q",
            "-W",
            "ignore",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            "-m",
            "not statistical",
            *_NOT_RACING,
        ]
        os._exit(int(pytest.main([*options, "--rootdir", str(ROOT), *files])))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 1):
        raise SystemExit(f"{path}: the tests did not run (exit code {code}).")
    return code == 0


def main(words: list[str]) -> int:
    chosen = [m for m in MUTANTS if not words or any(word in f"{m.path}:{m.name}" for word in words)]
    gone = [m for m in chosen if not stands(m)]
    for mutant in gone:
        print(f"NOT THERE {mutant.path}: {mutant.name}; its text must stand in the file exactly once.")
    alive = _survivors([m for m in chosen if m not in gone])
    killed = len(chosen) - len(gone) - len(alive)
    print(f"{len(chosen)} faults: {killed} killed, {len(alive)} survive, {len(gone)} not there.")
    return 1 if alive or gone else 0


def _survivors(chosen: list[Mutant]) -> list[Mutant]:
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        for path in dict.fromkeys(mutant.path for mutant in chosen):
            if not _tests_pass(path, folder):
                said = (folder / _SAID).read_text()[-3000:]
                raise SystemExit(f"{said}\nThe tests of {path} fail without any fault.")
        for mutant in chosen:
            begin = time.perf_counter()
            alive = survives(mutant, folder)
            said, took = "SURVIVES" if alive else "killed  ", time.perf_counter() - begin
            print(f"{said}  {mutant.path}: {mutant.name} ({mutant.why}; {took:.0f} s)", flush=True)
            survivors += [mutant] * alive
    return survivors


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

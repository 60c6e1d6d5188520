"""The compiled judgement of requests, one after the other, in four steps:

1. `_condition`: a baseline reward that counts as a label moves and narrows every estimate correlated with it,
   or contradicts the belief and shuts the task's gate.
2. candidates from the highest estimate downwards, as long as they are better than the baseline.
3. the variance of `x − β x_b`, which costs p² and is computed only for candidates, of rows only for those
   that less variance would let pass; the left-over's part of it, which costs another p², only where the bound
   would clear without it.
4. the first whose bound clears the floor is played.

Arrays of a belief are in its own coordinates; requests come in the user's units.
"""

from __future__ import annotations

import numpy as np

from banister.safety._matrix_kernels import at_least, completed, square, sure_share, taken, times, turned
from banister.safety.reasons import BASELINE_BEST, CERTIFIED, DISAGREES, IDENTICAL, OPEN, TOO_UNCERTAIN
from banister.solver.kernels import compiled, dot

UP = 2.0  # standard errors by which the left-over's variance is taken larger
_ROUNDING = 1e-12  # features reach us by different routes; a difference of this share of their size is none


@compiled
def standardise(x, shift, scale, z):  # type: ignore[no-untyped-def]
    """Features in the belief's coordinates; the last is the intercept where there is one more."""
    d = x.shape[0]
    for j in range(d):
        z[j] = (x[j] - shift[j]) / scale[j]
    for j in range(d, z.shape[0]):
        z[j] = 1.0


@compiled
def _left_over(own, own_b, beta, left):  # type: ignore[no-untyped-def]
    """Variance allowed for not knowing the left-over's own: `UP √(Σ (away'(x − β x_b))_j⁴ left_j²)`.

    Args:
        own, own_b: away'x and away'x_b, each of which costs p²: they are made where they are needed, once.
        beta, left: see above.
    """
    total = 0.0
    for j in range(left.shape[0]):
        turn = own[j] - beta * own_b[j]
        total += (turn * turn * left[j]) ** 2
    return UP * np.sqrt(total)


@compiled
def floor_of(reward, alpha, literal):  # type: ignore[no-untyped-def]
    """`r − α|r|`, or the paper's `(1 − α) r` whatever the sign."""
    return reward - alpha * (reward if literal else abs(reward))


@compiled
def alike(x, xb):  # type: ignore[no-untyped-def]
    """Whether an action has the baseline's features: no model can tell the two apart."""
    j = 0
    while j < x.shape[0] and abs(x[j] - xb[j]) <= _ROUNDING * abs(xb[j]):
        j += 1
    return j == x.shape[0]


@compiled
def _best_untried(mean, tried):  # type: ignore[no-untyped-def]
    best = -1
    for k in range(mean.shape[0]):
        if not tried[k] and (best < 0 or mean[k] > mean[best]):
            best = k
    return best


@compiled
def _difference(  # type: ignore[no-untyped-def]
    mean, mean_b, variance, cross, var_b, own, own_b, left, alpha, literal, z
):
    """The best lower bound on `(x − (1∓α) x_b)'θ`: one that is not negative clears the floor without r_b."""
    best = -np.inf
    for sign in (-1.0, 1.0):
        if literal and sign > 0:
            continue
        f = 1.0 + sign * alpha
        spread = variance - 2 * f * cross + f * f * var_b + _left_over(own, own_b, f, left)
        best = max(best, _below(mean - f * mean_b, spread, z))
    return best


@compiled
def _below(mean, variance, z):  # type: ignore[no-untyped-def]
    """The lower bound; a variance that is not a number, or negative beyond rounding, bounds nothing."""
    if not variance >= -1e-9 * (1.0 + mean * mean):
        return -np.inf
    return mean - z * np.sqrt(max(variance, 0.0))


@compiled
def _hopeless(  # type: ignore[no-untyped-def]
    variance, mean, mean_b, cross, var_b, gain, noise, moved, least, given, label, unsure, alpha, literal, z
):
    """Whether an action falls short already with a variance that is not above its own."""
    beta = cross * gain
    if given:
        narrowed = variance - 2 * beta * cross + beta * beta * (var_b + noise)
        passes = mean - z * np.sqrt(max(narrowed, 0.0)) >= least
        if not passes and not (label and unsure):
            return True
        if passes and label:
            return False
    keep = 1.0 - var_b * gain
    for sign in (-1.0, 1.0):
        f = 1.0 + sign * alpha
        spread = variance - cross * cross * gain - 2 * f * cross * keep + f * f * var_b * keep
        ahead = mean - f * (mean_b + var_b * moved) - z * np.sqrt(max(spread, 0.0))
        if ahead >= 0.0 and not (literal and sign > 0):
            return False
    return True


@compiled
def judge(  # type: ignore[no-untyped-def]
    task, actions, baseline, index, low, high, std, literal, alpha, shift, scale, unit,
    mean_of, matrices, left, z_of, labelled, label_error, gate, chosen, bound, floor, code,
):  # fmt: skip
    """Choose for each request in turn.

    Args:
        task, actions, baseline, index: requests; `baseline` (m, d) features, `index` −1 if it is not listed.
        low, high: (m,) bounds on the baseline reward: equal for a number, NaN where unknown.
        std: (m,) standard error of a number.
        literal, alpha: the floor.
        shift, scale, unit: of the features (d,) and of rewards.
        mean_of, matrices, left, z_of, labelled, label_error: the belief; `matrices` are `Dense` of all tasks,
            or `Factored` where all requests are of one.
        gate: (T,) why a task's gate is shut, `OPEN` if it is not; a contradicted label shuts it from that
            request on.
        chosen, bound, floor, code: (m,) results; `chosen` is −1 where the baseline is played.
    """
    m, n_actions, d = actions.shape
    p = mean_of.shape[1]
    zb, zx, vb = np.empty(p), np.empty(p), np.empty(p)
    own, own_b, weights = np.empty(p), np.empty(p), np.empty(p)
    mean, tried = np.empty(n_actions), np.empty(n_actions, np.bool_)
    for i in range(m):
        t = task[i]
        given, number = not np.isnan(high[i]), low[i] == high[i]
        r, error = high[i] / unit, std[i] / unit
        top = r + z_of[t] * error if number else r
        least = floor_of(top, alpha, literal)
        chosen[i], bound[i], floor[i], code[i] = -1, np.nan, np.nan, gate[t]
        if gate[t] != OPEN:
            floor[i] = floor_of(high[i], alpha, literal)
            continue
        if given:
            floor[i] = least * unit
        z, of = z_of[t], taken(matrices, t)
        label = number and labelled[t]
        standardise(baseline[i], shift, scale, zb)
        times(of, zb, vb)
        mean_b, var_b = dot(zb, mean_of[t]), max(dot(zb, vb), 0.0)
        gain = moved = noise = 0.0
        if label:
            noise = max(error, label_error) ** 2
            total = var_b + noise
            surprise = r - mean_b
            sure = sure_share(of)  # what is wider than it need be must not hide a contradiction
            doubt = sure * var_b + noise
            if surprise * surprise > z * z * doubt:
                turned(of, zb, own_b)
                if surprise * surprise > z * z * (doubt + sure * _left_over(own_b, own_b, 0.0, left)):
                    gate[t] = DISAGREES
                    code[i] = DISAGREES
                    continue
            gain = 1.0 / total
            moved = gain * surprise
        # Estimates per unit of each feature; a label moves those that are correlated with it.
        for j in range(p):
            weights[j] = mean_of[t, j] + vb[j] * moved
            if j < d:
                weights[j] /= scale[j]
        rest = weights[d] if p > d else 0.0
        rest -= dot(shift, weights[:d])
        for k in range(n_actions):
            mean[k], tried[k] = dot(actions[i, k], weights[:d]) + rest, False
        to_beat = r if label else mean_b
        code[i], compared = BASELINE_BEST, False
        # A label below the estimate lifts the baseline's twins above it: they are no better for that.
        twins = 0
        for k in range(n_actions):
            if k == index[i] or alike(actions[i, k], baseline[i]):
                tried[k] = True
                twins += 1
        if twins == n_actions and n_actions > 1:
            code[i] = IDENTICAL
            continue
        for _ in range(n_actions - twins):
            k = _best_untried(mean, tried)
            tried[k] = True
            if not mean[k] > to_beat:
                break
            code[i] = TOO_UNCERTAIN
            if given and mean[k] < least:
                break
            standardise(actions[i, k], shift, scale, zx)
            cross, fewest = dot(zx, vb), at_least(of, zx)
            if fewest > 0.0 and _hopeless(
                fewest, mean[k], mean_b, cross, var_b, gain, noise, moved, least, given, label, error > 0.0,
                alpha, literal, z,
            ):  # fmt: skip
                continue
            variance = square(of, zx, own)
            lower, cleared, whole = np.nan, True, False
            if not compared:
                turned(of, zb, own_b)
                compared = True
            if given:
                beta = cross * gain
                narrowed = variance - 2 * beta * cross + beta * beta * (var_b + noise)
                if label:  # what labels leave unexplained of baselines, the model leaves of actions too
                    narrowed += label_error**2
                if narrowed < 0.0 or _below(mean[k], narrowed, z) >= least:
                    completed(of, zx, own)
                    whole = True
                    narrowed += _left_over(own, own_b, beta, left)
                lower = _below(mean[k], narrowed, z)
                cleared = lower >= least
            if (not label and cleared) or (label and not cleared and error > 0.0):
                # Without a label the baseline of this very request is compared with, whatever is claimed.
                keep = 1.0 - var_b * gain
                if not whole:
                    completed(of, zx, own)
                ahead = _difference(
                    mean[k], mean_b + var_b * moved, variance - cross * cross * gain, cross * keep,
                    var_b * keep, own, own_b, left, alpha, literal, z,
                )  # fmt: skip
                cleared = ahead >= 0.0
                if not given or label:
                    lower = ahead
                    if cleared:
                        floor[i] = 0.0
            if cleared:
                chosen[i], bound[i], code[i] = k, lower * unit, CERTIFIED
                break

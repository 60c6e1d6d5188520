"""The compiled judgement of requests, one after the other, in four steps:

1. `_condition`: a baseline reward that counts as a label moves and narrows every estimate correlated with it,
   or contradicts the belief and shuts the task's gate.
2. `_estimate`: candidates from the highest estimate downwards, as long as they are better than the baseline.
3. `_certified`: the variance of `x − β x_b`, which costs p² and is computed only for candidates, of rows only
   for those that less variance would let pass; the left-over's part of it, which costs another p², only where
   the bound would clear without it.
4. `_chosen`: the first whose bound clears the floor is played.

Arrays of a belief are in its own coordinates; requests come in the user's units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banister.data import Float
from banister.safety._matrix_kernels import (
    at_least,
    completed,
    sketched,
    square,
    sure_share,
    taken,
    times,
    turned,
)
from banister.safety.reasons import BASELINE_BEST, CERTIFIED, DISAGREES, IDENTICAL, OPEN, TOO_UNCERTAIN
from banister.solver.kernels import compiled, dot

UP = 2.0  # standard errors by which the left-over's variance is taken larger
_ROUNDING = 1e-12  # features reach us by different routes; a difference of this share of their size is none


class Rule(NamedTuple):
    """What a bound must clear, and by how much.

    Attributes:
        alpha, literal: the floor.
        left: (p,) standard errors of the left-over's variance; z: standard errors of a bound.
        label_error: what labels leave unexplained.
    """

    alpha: float
    literal: bool
    left: Float
    z: float
    label_error: float


class Claim(NamedTuple):
    """What a request says of its baseline's reward, in the belief's unit.

    Attributes:
        given: whether anything; label: whether it counts as a label.
        r, error: the reward, or the upper end of its bounds, and its standard error.
        least: the floor, of the largest reward that is possible.
    """

    given: bool
    label: bool
    r: float
    error: float
    least: float


class Base(NamedTuple):
    """The baseline of a request under the belief.

    Attributes:
        mean, variance: of its reward, before the claim.
        noise, gain, moved: variance of a label, `1/(variance + noise)`, and gain times what it is off by; 0
            without one.
    """

    mean: float
    variance: float
    noise: float
    gain: float
    moved: float


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
def _below(mean, variance, z):  # type: ignore[no-untyped-def]
    """The lower bound; a variance that is not a number, or negative beyond rounding, bounds nothing."""
    if not variance >= -1e-9 * (1.0 + mean * mean):
        return -np.inf
    return mean - z * np.sqrt(max(variance, 0.0))


@compiled
def _difference(mean, variance, cross, base, own, own_b, rule):  # type: ignore[no-untyped-def]
    """The best lower bound on `(x − (1∓α) x_b)'θ`: one that is not negative clears the floor without r_b."""
    keep = 1.0 - base.variance * base.gain
    mean_b = base.mean + base.variance * base.moved
    variance -= cross * cross * base.gain
    cross, var_b, best = cross * keep, base.variance * keep, -np.inf
    for sign in (-1.0, 1.0):
        if rule.literal and sign > 0:
            continue
        f = 1.0 + sign * rule.alpha
        spread = variance - 2 * f * cross + f * f * var_b + _left_over(own, own_b, f, rule.left)
        best = max(best, _below(mean - f * mean_b, spread, rule.z))
    return best


@compiled
def _hopeless(variance, mean, cross, base, claim, rule):  # type: ignore[no-untyped-def]
    """Whether an action falls short already with a variance that is not above its own."""
    gain, var_b = base.gain, base.variance
    if claim.given:
        beta = cross * gain
        narrowed = variance - 2 * beta * cross + beta * beta * (var_b + base.noise)
        passes = mean - rule.z * np.sqrt(max(narrowed, 0.0)) >= claim.least
        if not passes and not (claim.label and claim.error > 0.0):
            return True
        if passes and claim.label:
            return False
    keep = 1.0 - var_b * gain
    for sign in (-1.0, 1.0):
        f = 1.0 + sign * rule.alpha
        spread = variance - cross * cross * gain - 2 * f * cross * keep + f * f * var_b * keep
        ahead = mean - f * (base.mean + var_b * base.moved) - rule.z * np.sqrt(max(spread, 0.0))
        if ahead >= 0.0 and not (rule.literal and sign > 0):
            return False
    return True


@compiled
def _claimed(low, high, std, unit, labelled, rule):  # type: ignore[no-untyped-def]
    given, number = not np.isnan(high), low == high
    r, error = high / unit, std / unit
    least = floor_of(r + rule.z * error if number else r, rule.alpha, rule.literal)
    return Claim(given, number and labelled, r, error, least)


@compiled
def _condition(of, zb, mean, claim, rule, vb, own_b):  # type: ignore[no-untyped-def]
    """The baseline under the belief, and whether a label contradicts it; fills `vb = V x_b`.

    Without a label both are a sketch that is not above V, until an action asks for more (`_whole`).
    """
    mean_b = dot(zb, mean)
    if not claim.label:
        return Base(mean_b, sketched(of, zb, vb), 0.0, 0.0, 0.0), False
    times(of, zb, vb)
    var_b = max(dot(zb, vb), 0.0)
    noise = max(claim.error, rule.label_error) ** 2
    surprise, sure = claim.r - mean_b, sure_share(of)  # what is too wide must not hide a contradiction
    doubt = sure * var_b + noise
    if surprise * surprise > rule.z * rule.z * doubt:
        turned(of, zb, own_b)
        more = sure * _left_over(own_b, own_b, 0.0, rule.left)
        if surprise * surprise > rule.z * rule.z * (doubt + more):
            return Base(mean_b, var_b, noise, 0.0, 0.0), True
    gain = 1.0 / (var_b + noise)
    return Base(mean_b, var_b, noise, gain, gain * surprise), False


@compiled
def _whole(of, zb, vb, own_b, base, claim):  # type: ignore[no-untyped-def]
    """The baseline with all that is known of its variance; fills `vb` and `own_b`."""
    turned(of, zb, own_b)
    if claim.label:
        return base
    times(of, zb, vb)
    return Base(base.mean, max(dot(zb, vb), 0.0), 0.0, 0.0, 0.0)


@compiled
def _estimate(actions, shift, scale, mean, vb, moved, weights, out):  # type: ignore[no-untyped-def]
    """out = estimates of the actions (K,); a label moves those that are correlated with it."""
    d, p = actions.shape[1], mean.shape[0]
    for j in range(p):  # per unit of each feature
        weights[j] = mean[j] + vb[j] * moved
        if j < d:
            weights[j] /= scale[j]
    rest = weights[d] if p > d else 0.0
    rest -= dot(shift, weights[:d])
    for k in range(out.shape[0]):
        out[k] = dot(actions[k], weights[:d]) + rest


@compiled
def _twins(actions, baseline, index, tried):  # type: ignore[no-untyped-def]
    """How many actions are the baseline or its twins: marked as tried.

    A label below the estimate lifts the baseline's twins above it: they are no better for that.
    """
    twins = 0
    for k in range(actions.shape[0]):
        tried[k] = k == index or alike(actions[k], baseline)
        twins += tried[k]
    return twins


@compiled
def _certified(of, zx, mean, cross, variance, base, claim, rule, own, own_b):  # type: ignore[no-untyped-def]
    """Whether an action clears its floor, its bound, and whether that is on its height above the floor."""
    lower, cleared, whole = np.nan, True, False
    if claim.given:
        beta = cross * base.gain
        narrowed = variance - 2 * beta * cross + beta * beta * (base.variance + base.noise)
        if claim.label:  # what labels leave unexplained of baselines, the model leaves of actions too
            narrowed += rule.label_error**2
        if narrowed < 0.0 or _below(mean, narrowed, rule.z) >= claim.least:
            completed(of, zx, own)
            whole = True
            narrowed += _left_over(own, own_b, beta, rule.left)
        lower = _below(mean, narrowed, rule.z)
        cleared = lower >= claim.least
    if (claim.label and (cleared or claim.error == 0.0)) or not (claim.label or cleared):
        return cleared, lower, False
    # Without a label the baseline of this very request is compared with, whatever is claimed.
    if not whole:
        completed(of, zx, own)
    ahead = _difference(mean, variance, cross, base, own, own_b, rule)
    above = not claim.given or claim.label
    return ahead >= 0.0, ahead if above else lower, above and ahead >= 0.0


@compiled
def _chosen(  # type: ignore[no-untyped-def]
    actions, shift, scale, of, zb, zx, vb, own, own_b, mean, tried, twins, base, claim, rule
):
    """The first action from the highest estimate down that clears its floor, or −1; its bound; its reason."""
    to_beat = claim.r if claim.label else base.mean
    code, compared = BASELINE_BEST, False
    for _ in range(actions.shape[0] - twins):
        k = _best_untried(mean, tried)
        tried[k] = True
        if not mean[k] > to_beat:
            break
        code = TOO_UNCERTAIN
        if claim.given and mean[k] < claim.least:
            break
        standardise(actions[k], shift, scale, zx)
        fewest = at_least(of, zx, own)
        if fewest > 0.0 and _hopeless(fewest, mean[k], dot(zx, vb), base, claim, rule):
            continue
        if not compared:
            base, compared = _whole(of, zb, vb, own_b, base, claim), True
        cross, variance = dot(zx, vb), square(of, zx, own)
        cleared, lower, above = _certified(of, zx, mean[k], cross, variance, base, claim, rule, own, own_b)
        if cleared:
            return k, lower, above, CERTIFIED
    return -1, np.nan, False, code


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
    n_actions, p = actions.shape[1], mean_of.shape[1]
    zb, zx, vb = np.empty(p), np.empty(p), np.empty(p)
    own, own_b, weights = np.empty(p), np.empty(p), np.empty(p)
    mean, tried = np.empty(n_actions), np.empty(n_actions, np.bool_)
    for i in range(actions.shape[0]):
        t = task[i]
        chosen[i], bound[i], floor[i], code[i] = -1, np.nan, np.nan, gate[t]
        if gate[t] != OPEN:
            floor[i] = floor_of(high[i], alpha, literal)
            continue
        rule, of = Rule(alpha, literal, left, z_of[t], label_error), taken(matrices, t)
        claim = _claimed(low[i], high[i], std[i], unit, labelled[t], rule)
        if claim.given:
            floor[i] = claim.least * unit
        standardise(baseline[i], shift, scale, zb)
        base, contradicted = _condition(of, zb, mean_of[t], claim, rule, vb, own_b)
        if contradicted:
            gate[t] = code[i] = DISAGREES
            continue
        _estimate(actions[i], shift, scale, mean_of[t], vb, base.moved, weights, mean)
        twins = _twins(actions[i], baseline[i], index[i], tried)
        if twins == n_actions and n_actions > 1:
            code[i] = IDENTICAL
            continue
        k, lower, above, code[i] = _chosen(
            actions[i], shift, scale, of, zb, zx, vb, own, own_b, mean, tried, twins, base, claim, rule
        )
        if k >= 0:
            chosen[i], bound[i] = k, lower * unit
            if above:
                floor[i] = 0.0

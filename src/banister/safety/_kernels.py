"""The compiled judgement of requests, one after the other.

Standard errors cost d² each, so they are computed only for actions that could be played: candidates are
taken from the highest estimate downwards and the first whose bound clears the floor is played.
"""

from __future__ import annotations

import numpy as np

from banister.safety.checks import BASELINES, DRIFT, OPEN, REASONS
from banister.solver.kernels import compiled, dot

NOT_CLEARED = len(REASONS)  # after the codes of `checks`: the gate is open, but no bound clears the floor


@compiled
def _two_products(V, a, b, va, vb):  # type: ignore[no-untyped-def]
    """va = V a and vb = V b for a symmetric V, reading V once."""
    d = V.shape[0]
    for i in range(d):
        row = V[i]
        s = t = 0.0
        for j in range(d):
            s += row[j] * a[j]
            t += row[j] * b[j]
        va[i], vb[i] = s, t


@compiled
def _product(V, a, va):  # type: ignore[no-untyped-def]
    for i in range(V.shape[0]):
        va[i] = dot(V[i], a)


@compiled
def _best_untried(mean, tried):  # type: ignore[no-untyped-def]
    best = -1
    for k in range(mean.shape[0]):
        if not tried[k] and (best < 0 or mean[k] > mean[best]):
            best = k
    return best


@compiled
def _floor(reward, alpha, literal):  # type: ignore[no-untyped-def]
    return reward - alpha * (reward if literal else abs(reward))


@compiled
def _difference_bound(mean, mean_b, variance, cross, var_b, alpha, literal, z):  # type: ignore[no-untyped-def]
    """The best lower bound on (x − (1∓α) x_b)'θ; one that is not negative certifies x without r_b."""
    best = -np.inf
    for sign in (-1.0, 1.0):
        if literal and sign > 0:
            continue
        f = 1.0 + sign * alpha
        spread = max(variance - 2 * f * cross + f * f * var_b, 0.0)
        best = max(best, mean - f * mean_b - z * np.sqrt(spread))
    return best


@compiled
def judge(  # type: ignore[no-untyped-def]
    task, actions, baseline, index, reward, error, slack, literal, alpha, theta, V, z, shut, surprises,
    chosen, bound, floor, code,
):  # fmt: skip
    """Choose for each request in turn.

    Args:
        task, actions, baseline, index: requests; `baseline` (m, d) features, `index` −1 if it is not listed.
        reward: (m,) known baseline reward, NaN if unknown.
        error: (m,) its standard error as a label; slack: (m,) what the floor allows for it.
        literal, alpha: the floor.
        theta: (T, d); V: (T, d, d); z: (T,); shut: (T,) why a task's gate is shut, 0 if it is open. A task
            whose baseline reward contradicts the model is shut from that request on.
        surprises: (2,) tasks shut in this way so far, and how many of them shut every gate.
        chosen, bound, floor, code: (m,) results; `chosen` is −1 where nothing is certified.
    """
    m, n_actions, d = actions.shape
    vb, vx = np.empty(d), np.empty(d)
    mean, cross = np.empty(n_actions), np.empty(n_actions)
    tried = np.empty(n_actions, np.bool_)
    for i in range(m):
        t, r = task[i], reward[i]
        known = not np.isnan(r)
        high = r + slack[i]
        floor[i] = _floor(high, alpha, literal) if known else np.nan
        chosen[i], bound[i], code[i] = -1, np.nan, shut[t]
        if shut[t] != OPEN:
            continue
        xb = baseline[i]
        for k in range(n_actions):
            mean[k], tried[k] = dot(actions[i, k], theta[t]), False
        guess = _best_untried(mean, tried)
        _two_products(V[t], xb, actions[i, guess], vb, vx)
        guess_variance = dot(vx, actions[i, guess])
        mean_b, var_b = dot(xb, theta[t]), max(dot(xb, vb), 0.0)
        gain = shift = 0.0
        if known:
            total = var_b + error[i] * error[i]
            surprise = r - mean_b
            if surprise * surprise > z[t] * z[t] * total:
                shut[t] = BASELINES
                code[i] = BASELINES
                surprises[0] += 1
                if surprises[0] >= surprises[1]:
                    shut[:] = DRIFT
                continue
            gain = 1.0 / total if total > 0.0 else 0.0
            shift = gain * surprise
        # Knowing x_b'θ = r_b moves every estimate that is correlated with it, and narrows it.
        for k in range(n_actions):
            cross[k] = dot(actions[i, k], vb)
            mean[k] += cross[k] * shift
        mean_b += var_b * shift
        narrow = 1.0 - var_b * gain
        code[i] = NOT_CLEARED
        for _ in range(n_actions):
            k = _best_untried(mean, tried)
            tried[k] = True
            if k == index[i] and not literal:
                break
            if known and slack[i] == 0.0 and mean[k] < floor[i]:
                break
            if k == guess:
                variance = guess_variance
            else:
                _product(V[t], actions[i, k], vx)
                variance = dot(vx, actions[i, k])
            variance -= cross[k] * cross[k] * gain
            if known:
                lower = mean[k] - z[t] * np.sqrt(max(variance, 0.0))
                if lower >= floor[i]:
                    chosen[i], bound[i], code[i] = k, lower, OPEN
                    break
            if not known or slack[i] > 0.0:
                lower = _difference_bound(
                    mean[k], mean_b, variance, cross[k] * narrow, var_b * narrow, alpha, literal, z[t]
                )
                if lower >= 0.0:
                    chosen[i], bound[i], floor[i], code[i] = k, lower, 0.0, OPEN
                    break
        if chosen[i] < 0 and index[i] >= 0 and not literal:
            # The baseline never falls below its own floor, however well its reward is known. (The paper's
            # literal floor lies above a baseline that loses, so there it is judged as the rest.)
            chosen[i], bound[i], code[i] = index[i], r if known else 0.0, OPEN
            floor[i] = _floor(r, alpha, literal) if known else 0.0

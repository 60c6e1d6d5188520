"""Beliefs: equal to a plain twin of the whole fit; units, tasks without rows, and where a fit begins."""

import numpy as np
import pytest
from scipy.stats import norm

from banister.errors import SettingError
from banister.safety import believer as module
from banister.safety.belief import Belief
from banister.safety.believer import Believer
from banister.safety.frame import Frame
from banister.safety.labels import Claims
from banister.safety.loudness import loudness
from banister.safety.passes import fit
from banister.safety.seen import Seen, latest, most_common
from belief_world import World, arms_played, scaled
from belief_world import belief as made
from plain_belief import plain_belief

ARRAYS = ("mean", "V", "away", "noise", "left", "z", "label_error", "usual")


def twin(seen, n_tasks, decisions=500, digits=1e-7):
    """The belief and its plain twin, after they were found equal."""
    found, plain = Believer().believe(seen, n_tasks, decisions), plain_belief(seen, decisions)
    assert found.rank == plain["rank"]
    assert found.labelled.tolist() == plain["labelled"].tolist()
    for name in ARRAYS:
        wanted = np.asarray(plain[name])
        # Rounding grows in 16 passes, which few rows hardly hold; I − ΣK cancels where noise is small.
        near = 1e-6 if name == "away" else digits * np.abs(wanted).max(initial=0)
        np.testing.assert_allclose(getattr(found, name), wanted, rtol=0, atol=near, err_msg=name)
    return found, plain


@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize(
    "settings",
    [{}, {"noise": 0.5, "rank": 1}, {"T": 1}, {"T": 3, "d": 2}, {"rank": 4}, {"place": 0}, {"level": 0.0}],
    ids=str,
)
def test_a_belief_is_its_plain_twin(settings, claims):
    world = World(**settings)
    found, _ = twin(world.seen(14, claims=claims), world.T)
    if claims and world.T > 1:
        assert found.claims is Claims.BORNE_OUT


def test_a_belief_of_few_rows_is_its_plain_twin():
    # four rows of each of twelve tasks, nothing shared yet: each task's size has four degrees of freedom
    world = World(T=12, d=10)
    assert twin(world.seen(4), world.T)[0].rank == 0


def test_a_belief_of_an_arm_that_every_task_played_once_is_its_plain_twin():
    # The arm is thirty times as loud as the two others, and each reward of it passes for the task's own.
    rng, T = np.random.default_rng(1), 8
    task, turn = np.repeat(np.arange(T), 12), np.tile(np.arange(12), T)
    arm = np.where(turn == 11, 2, turn % 2)
    y = rng.normal(2.0, 0.3, (T, 3))[task, arm] + np.array([0.1, 0.1, 3.0])[arm] * rng.standard_normal(96)
    found, _ = twin(arms_played(task, arm, y, T), T)
    errors = np.array([[found.contrast(t, x, 1.0)[1] for x in np.eye(3)] for t in range(T)])
    assert (errors[:, 2] > 100 * errors[:, 1]).all()


@pytest.mark.parametrize("n", [1, 2, 4, 60])
def test_with_few_rows_and_with_many(n):
    # From one row a task the left-over is taken so wide that the twin, which inverts it, loses a digit more.
    world = World(seed=n)
    twin(world.seen(n, claims=False), world.T, decisions=12 * n, digits=1e-6 if n == 1 else 1e-7)


def test_a_belief_whose_fit_passes_through_its_rows_is_its_plain_twin():
    # four rows a task: a direction is found, but three quarters of the rows are spent
    world = World(T=20, d=6, rank=1, noise=0.3)
    assert twin(world.seen(4, claims=False), world.T)[0].rank == 1


def test_a_belief_with_a_task_alone_in_its_direction_is_its_plain_twin():
    # one task twenty times as large as the others goes its own way, and nothing bears out where to
    world = World(d=8, noise=0.05)
    world.theta[3] = 20 * np.random.default_rng(3).normal(size=8)
    found, plain = twin(world.seen(6, claims=False), world.T)
    assert found.rank > 0
    assert np.flatnonzero(plain["added"]).tolist() == [3]
    others = np.delete(np.trace(found.V, axis1=1, axis2=2), 3)
    assert np.trace(found.V[3]) > 10 * others.max()


def test_claims_with_errors_enter_with_their_own_weight():
    world = World(noise=0.5)
    seen = world.seen(14)
    std = 0.05 + 0.05 * (seen.label_task % 3)
    claims = seen.label + std * np.random.default_rng(0).normal(size=len(std))
    found, _ = twin(seen._replace(label=claims, claim=claims, label_std=std), world.T)
    assert found.claims is Claims.BORNE_OUT
    exact = Believer().believe(seen, world.T, 500)
    assert np.trace(found.V[2]) > 2 * np.trace(exact.V[2])


def test_averages_are_no_labels_and_are_named():
    world = World()
    seen = world.seen(14, exact=False)
    found, _ = twin(seen, world.T)
    assert found.claims is Claims.AVERAGES
    without = seen._replace(
        claim=np.full(len(seen.y), np.nan),
        label_task=seen.task[:0],
        labelled_features=seen.X[:0],
        label=seen.y[:0],
        label_std=seen.y[:0],
    )
    np.testing.assert_array_equal(found.mean, Believer().believe(without, world.T, 500).mean)


def test_a_task_off_the_shared_directions_has_a_wide_belief_of_its_own():
    world = World(T=30, rank=1, d=6, noise=0.05, place=4)
    world.theta[3] += 0.3 * np.random.default_rng(5).normal(size=6)
    found, plain = twin(world.seen(12, claims=False), 30)
    assert np.flatnonzero(plain["added"]).tolist() == [3]
    widths = np.trace(found.V, axis1=1, axis2=2)
    assert widths[3] > 20 * np.median(widths)


def test_noise_that_grows_with_the_features_widens_everything():
    world = World(noise=0.0)
    seen = world.seen(20, claims=False)
    size = (seen.X**2).sum(axis=1)
    y = seen.y + 0.1 * size * np.random.default_rng(0).normal(size=len(size))
    _, plain = twin(seen._replace(y=y), world.T)
    assert plain["unequal"] > 1.2


def test_a_leaning_baseline_widens_its_task():
    world = World(place=0)
    _, plain = twin(world.seen(14, claims=False), world.T)
    assert np.all(plain["added"] > 0)


def test_a_constant_feature_is_the_intercept():
    world = World()
    seen = world.seen(14, claims=False)
    ones = np.ones((len(seen.y), 1))
    more = seen._replace(X=np.hstack([seen.X, 7 * ones]), offered=np.hstack([seen.offered, 7 * ones]),
                         labelled_features=np.hstack([seen.labelled_features, 7 * ones[:0]]))  # fmt: skip
    found, plain = twin(more, world.T)[0], Believer().believe(seen, world.T, 500)
    assert not found.frame.intercept
    assert plain.frame.intercept
    np.testing.assert_allclose(found.mean, plain.mean, rtol=1e-9)
    np.testing.assert_allclose(found.V, plain.V, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("features", [1e-150, 1e-3, 1.0, 1e150])
@pytest.mark.parametrize("rewards", [1e-150, 1.0, 1e150])
def test_units_do_not_matter(features, rewards):
    world = World()
    seen = world.seen(8)
    plain, other = (Believer().believe(s, world.T, 500) for s in (seen, scaled(seen, features, rewards)))
    np.testing.assert_allclose(other.mean, plain.mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(other.V, plain.V, rtol=1e-5, atol=1e-9 * np.abs(plain.V).max())
    assert other.claims is plain.claims


def test_tasks_without_rows_are_not_known_and_change_nothing():
    world = World(T=6)
    seen = world.seen(10)
    place = np.array([0, 2, 3, 5, 7, 8])
    spread = seen._replace(
        task=place[seen.task], label_task=place[seen.label_task], offered_task=place[seen.offered_task]
    )
    plain, found = Believer().believe(seen, 6, 999), Believer().believe(spread, 10, 999)
    assert found.known.tolist() == [t in place for t in range(10)]
    assert found.n_tasks == 10
    for name in ("mean", "V", "away", "noise", "z", "labelled"):
        np.testing.assert_array_equal(getattr(found, name)[place], getattr(plain, name))
        assert not np.any(getattr(found, name)[[1, 4, 6, 9]])
    # claims and offers of a task that never played are left out
    extra = spread._replace(
        label_task=np.append(spread.label_task, 9),
        labelled_features=np.vstack([spread.labelled_features, np.ones(4)]),
        label=np.append(spread.label, 1e6),
        label_std=np.append(spread.label_std, 0.0),
    )
    np.testing.assert_array_equal(Believer().believe(extra, 10, 999).mean, found.mean)


def test_nothing_is_believed_while_rewards_tell_nothing_apart():
    world = World()
    seen = world.seen(3)
    empty = seen._replace(**{name: getattr(seen, name)[:0] for name in seen._fields if name[-4:] != "past"})
    for none in (empty, seen._replace(y=np.full(len(seen.y), 2.5))):
        found = Believer().believe(none, world.T, 500)
        assert not found.known.any()
        assert found.n_tasks == world.T
        assert len(found.usual) == 0


def test_many_tasks_share_what_a_sample_tells(monkeypatch):
    world = World(T=30, d=3, rank=1, noise=0.1)
    seen = world.seen(12, claims=False)
    whole, sizes = Believer().believe(seen, 30, 500), []
    monkeypatch.setattr(module, "_SAMPLED", 20)
    monkeypatch.setattr(module, "fit", lambda rows, *rest: (sizes.append(rows.n_tasks), fit(rows, *rest))[1])
    found = Believer().believe(seen, 30, 500)
    assert sizes == [20]
    assert found.known.all()
    assert found.rank == whole.rank == 1
    width = np.sqrt(np.diagonal(found.V, 0, 1, 2))
    assert np.abs((found.mean - whole.mean) / width).max() < 2.0
    assert np.mean(width**2) > np.mean(np.diagonal(whole.V, 0, 1, 2))  # it knows less of what is shared
    again = Believer().believe(seen, 30, 500)
    np.testing.assert_array_equal(again.mean, found.mean)  # the same sample each time


def test_the_quantile_of_all_decisions_together():
    by = Believer()
    assert by.quantile(10_000, 5) == pytest.approx(norm.isf(0.05 / 20_000))
    assert by.quantile(10, 5) == pytest.approx(norm.isf(0.05 / 500))
    assert Believer(confidence=0.99).quantile(10, 5) == pytest.approx(norm.isf(0.01 / 500))
    assert Believer(decisions=10**6).quantile(10, 5) == pytest.approx(norm.isf(0.05 / 10**6))


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, np.nan])
def test_a_confidence_that_is_none(confidence):
    with pytest.raises(SettingError, match="confidence"):
        Believer(confidence=confidence)


def test_a_rank_that_is_given_is_the_most():
    world = World(T=30, noise=0.02)
    seen = world.seen(20, claims=False)
    plain, capped = Believer().believe(seen, 30, 500), Believer(rank=1).believe(seen, 30, 500)
    assert plain.rank > capped.rank == 1
    assert np.all(np.trace(capped.V, axis1=1, axis2=2) > 0)


def test_claims_once_contradicted_stay_so():
    world = World()
    seen = world.seen(14)
    last = Believer().believe(seen._replace(label=seen.label + 1, claim=seen.claim + 1), world.T, 500)
    assert last.claims is Claims.CONTRADICTED
    assert Believer().believe(seen, world.T, 500, last).claims is Claims.CONTRADICTED
    assert not Believer().believe(seen, world.T, 500, last).labelled.any()
    assert Believer().believe(seen, world.T, 500).claims is Claims.BORNE_OUT


def starts(seen, last, n_tasks, monkeypatch):
    kept = []
    monkeypatch.setattr(module, "fit", lambda rows, *rest: (kept.append(rest[0]), fit(rows, *rest))[1])
    found = Believer().believe(seen, n_tasks, 500, last)
    return kept[0], found


def test_where_a_fit_begins(monkeypatch):
    world = World()
    seen = world.seen(14, claims=False)
    rows = len(seen.y)
    start, first = starts(seen, None, world.T, monkeypatch)
    assert start is None
    assert first.start.rows == rows
    some = seen._replace(y=seen.y + 0.0)
    start, warm = starts(some, first, world.T, monkeypatch)
    assert start.rows == rows
    assert warm.start.rows == rows  # counted from the last cold start
    # doubled rows, another standing of claims, another intercept: from nothing
    twice = seen._replace(
        task=np.tile(seen.task, 2), X=np.tile(seen.X, (2, 1)), y=np.tile(seen.y, 2),
        is_baseline=np.tile(seen.is_baseline, 2), claim=np.tile(seen.claim, 2),
    )  # fmt: skip
    assert starts(twice, warm, world.T, monkeypatch)[0] is None
    assert starts(World().seen(14), first, world.T, monkeypatch)[0] is None
    seven = seen._replace(
        X=np.where([1, 0, 0, 0], 7.0, seen.X), offered=np.where([1, 0, 0, 0], 7.0, seen.offered)
    )
    assert starts(seven, first, world.T, monkeypatch)[0] is None
    assert starts(seen, Belief.none(world.T, 4), world.T, monkeypatch)[0] is None


def test_a_start_is_told_in_the_units_of_the_new_frame(monkeypatch):
    world = World()
    seen = world.seen(14, claims=False)
    first = Believer().believe(seen, world.T, 500)
    other = scaled(seen, 2.0, 10.0)
    start, found = starts(other, first, world.T, monkeypatch)
    # the same coefficients per unit of the users' features: 10 times the rewards are 10 times the unit
    for old, new in (
        (first.start.shared.mu, start.shared.mu),
        (first.start.shared.L[:, 0], start.shared.L[:, 0]),
    ):
        np.testing.assert_allclose(new * found.frame.units, old * first.frame.units, rtol=1e-12)
    np.testing.assert_allclose(
        start.shared.D * found.frame.units**2, first.start.shared.D * first.frame.units**2, rtol=1e-12
    )


@pytest.mark.parametrize("power", [-150, 150])
def test_a_warm_fit_in_extreme_units_is_that_in_plain_ones(power):
    seen = World().seen(14, claims=False)
    means = []
    for s in (seen, scaled(seen, 10.0**-power, 10.0**power)):
        first = Believer().believe(s, 12, 500)
        means.append(Believer().believe(s, 12, 500, first).mean)
    np.testing.assert_allclose(means[1], means[0], rtol=1e-6, atol=1e-9)


def test_the_latest_rows_of_each_task(monkeypatch):
    monkeypatch.setattr("banister.safety.seen.PAIRED", 2)
    task = np.array([0, 1, 0, 0, 1, 0, 2])
    which = np.array([1, 1, 1, 0, 1, 1, 1], dtype=bool)
    assert latest(task, which, 3).tolist() == [1, 2, 4, 5, 6]


def test_a_belief_cannot_be_changed():
    found = Believer().believe(World().seen(5), 12, 500)
    for name in ("mean", "V", "z", "usual"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(found, name)[...] = 0.0


def test_theta_is_per_unit_of_the_features():
    world = World(noise=0.01)
    found = Believer().believe(scaled(world.seen(40, claims=False), 1e3, 10.0), world.T, 500)
    np.testing.assert_allclose(found.theta * 1e3 / 10, world.theta, atol=0.02)


def test_predictions_and_contrasts_in_the_users_units():
    frame = Frame(np.array([2.0, 4.0]), True, 10.0)
    V = np.diag([1.0, 4.0, 0.25])
    b = made([[1.0, 2.0, 0.5]], [V], frame=frame, left=np.array([0.0, 0.0, 0.1]))
    x, other = np.array([2.0, 4.0]), np.array([2.0, 0.0])
    np.testing.assert_allclose(b.predict(0, np.array([x, other])), [35.0, 15.0])
    # x: z = (1, 1, 1), variance 5.25 and 2 · 0.1 for the left-over; the difference: z = (0, 1, 0)
    assert b.contrast(0, x, 1.0) == (pytest.approx(35.0), pytest.approx(10 * np.sqrt(5.25 + 0.2)))
    assert b.contrast(0, x - other) == (pytest.approx(20.0), pytest.approx(10 * 2.0))


@pytest.mark.statistical
def test_standardised_errors_are_calibrated():
    # Errors of actions on offer, with all that the bound allows for.
    for n, largest in ((8, 4.5), (30, 4.5)):
        sizes = []
        for seed in range(20):
            world = World(T=20, d=6, rank=2, noise=0.3, level=0.0, place=3, seed=seed)
            found = Believer().believe(world.seen(n, claims=False), 20, 1000)
            truth = np.hstack([world.theta * found.frame.scale, world.level[:, None]]) / found.frame.reward
            task, actions, _, _ = world.ask(400)
            Z = found.frame.rows(actions[:, 0])
            shared = np.einsum("np,npq->nq", Z, found.away[task]) ** 2
            variance = np.einsum("np,npq,nq->n", Z, found.V[task], Z)
            variance += 2 * np.sqrt((shared**2 * found.left**2).sum(axis=1))
            sizes.append((Z * (truth - found.mean)[task]).sum(axis=1) / np.sqrt(variance))
        assert 0.5 < np.sqrt(np.mean(np.square(sizes))) < 1.1
        assert np.quantile(np.abs(sizes), 0.999) < largest


@pytest.mark.parametrize(("clicks", "told"), [(0, False), (7, False), (8, True)])
def test_a_handful_of_clicks_among_zeros_tells_nothing(clicks, told):
    # 3 features and an intercept: two clicks for each of 4 coefficients
    rng = np.random.default_rng(0)
    X, task, y = rng.standard_normal((200, 3)), np.arange(200) % 10, np.zeros(200)
    y[:clicks] = 1.0
    none, no_rows = np.zeros(0), np.zeros((0, 3))
    plays = task, X, y, np.ones(200, dtype=bool), np.full(200, np.nan)
    seen = Seen(*plays, np.zeros(0, dtype=int), no_rows, none, none, task, X)
    assert Believer().believe(seen, 10, 200).known.any() == told


def test_few_rewards_of_many_values_are_told_from_the_start():
    X, y = np.random.default_rng(0).standard_normal((5, 3)), np.arange(5.0)
    none, no_rows, task = np.zeros(0), np.zeros((0, 3)), np.zeros(5, dtype=int)
    plays = task, X, y, np.ones(5, dtype=bool), np.full(5, np.nan)
    assert Believer().believe(Seen(*plays, task[:0], no_rows, none, none, task, X), 1, 5).known.all()


def test_how_often_the_most_common_reward_came():
    task, y = np.array([0, 2, 0, 2, 2, 0]), np.array([1.0, 0.0, 1.0, 0.0, 5.0, 2.0])
    assert most_common(task, y, 4, np.ones(6)).tolist() == [2.0, 0.0, 2.0, 0.0]
    assert most_common(task, y, 4, np.array([1.0, 1, 1, 1, 9, 1])).tolist() == [2.0, 0.0, 9.0, 0.0]


def test_a_task_that_has_earned_only_zeros_does_not_know_its_noise():
    rng = np.random.default_rng(3)
    T, n = 12, 60
    X, task = rng.standard_normal((T * n, 3)), np.repeat(np.arange(T), n)
    y = (rng.random(T * n) < 0.2).astype(float)
    y[task == 0] = 0.0
    none, no_rows = np.zeros(0), np.zeros((0, 3))
    plays = task, X, y, np.ones(T * n, dtype=bool), np.full(T * n, np.nan)
    belief = Believer().believe(Seen(*plays, task[:0], no_rows, none, none, task, X), T, T * n)
    assert belief.noise[0] > 0.8 * np.median(belief.noise)


def test_a_task_that_mostly_earns_one_value_is_as_noisy_as_the_others():
    """Its usual arm always earns 1; the few rewards of another are no more exact than elsewhere."""
    rng = np.random.default_rng(4)
    T, n = 12, 120
    task, arm = np.repeat(np.arange(T), n), rng.integers(0, 3, T * n)
    arm[(task == 0) & (np.arange(T * n) % 12 > 0)] = 0
    y = (rng.random(T * n) < 0.5).astype(float)
    y[(task == 0) & (arm == 0)] = 1.0
    X, none, no_rows = np.eye(3)[arm], np.zeros(0), np.zeros((0, 3))
    plays = task, X, y, np.ones(T * n, dtype=bool), np.full(T * n, np.nan)
    belief = Believer().believe(Seen(*plays, task[:0], no_rows, none, none, task, X), T, T * n)
    assert belief.noise[0] > 0.9 * np.median(belief.noise)
    assert belief.steady[0] >= np.sqrt(np.mean(belief.noise**2)) * (1 - 1e-12)


def test_rows_of_every_task_tell_of_noise_where_tasks_take_turns(monkeypatch):
    world, looked = World(T=8, d=4), []
    seen = world.seen(60, claims=False)  # eight tasks in turns; every eighth row is of one task
    monkeypatch.setattr(module, "_USUAL", 60)
    monkeypatch.setattr(module, "_A_FEATURE", 1)

    def look(told, *more):
        looked.append(set(told.task.tolist()))
        return loudness(told, *more)

    monkeypatch.setattr(module, "loudness", look)
    Believer().believe(seen, world.T, 500)
    assert looked == [set(range(8))]

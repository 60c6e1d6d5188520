"""Work shared among threads and parts: what follows for each task is the same wherever it is worked out."""

import pickle

import numpy as np
import pytest

from banister.errors import SettingError
from banister.online.bandit import SafeBandit
from banister.safety import believer as module
from banister.safety import gathering, posterior
from banister.safety.believer import Believer
from banister.safety.compact import PerTask
from banister.solver import RayWorkers, Threads, as_workers
from belief_world import World

T = 40


class Elsewhere(Threads):
    """Every piece goes and comes back as bytes, as it does on a cluster."""

    def map(self, work, pieces, *common):
        self.sizes = [len(pickle.dumps(piece)) for piece in pieces]
        sent = pickle.loads(pickle.dumps((work, pieces, common)))
        return [pickle.loads(pickle.dumps(sent[0](*piece, *sent[2]))) for piece in sent[1]]


@pytest.fixture(params=[0, 10**9], ids=["rows", "matrices"])
def seen(request, monkeypatch):
    """Forty tasks in blocks of three, of which a sample of twenty shows what is shared."""
    monkeypatch.setattr(module, "DENSE", request.param)
    monkeypatch.setattr(module, "_SAMPLED", 20)
    monkeypatch.setattr(gathering, "chunks", lambda n, entries: posterior.chunks(n, 2**18 // 3))
    return World(T=T, d=4, noise=0.5).seen(25)


def same(a, b):
    for name in ("mean", "noise", "z", "usual", "left", "labelled", "known"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for t in range(T):
        np.testing.assert_array_equal(a.V[t], b.V[t])
        np.testing.assert_array_equal(a.away[t], b.away[t])


@pytest.mark.parametrize("shares", [1, 2, 3, 7, 32])
@pytest.mark.parametrize("kind", [Threads, Elsewhere])
def test_a_belief_is_the_same_for_any_number_of_parts(seen, kind, shares):
    whole = Believer().believe(seen, T, 1000)
    assert isinstance(whole.V, PerTask) == (module.DENSE == 0)
    same(whole, Believer(workers=kind(shares)).believe(seen, T, 1000))


def test_a_part_takes_its_own_rows_along_and_no_others(seen):
    workers = Elsewhere(4)
    Believer(workers=workers).believe(seen, T, 1000)
    assert len(workers.sizes) == 4
    assert max(workers.sizes) < 0.5 * len(pickle.dumps(seen))


def test_few_tasks_stay_in_one_piece(seen, monkeypatch):
    monkeypatch.setattr(module, "_SAMPLED", T)
    workers = Elsewhere(4)
    Believer(workers=workers).believe(seen, T, 1000)
    assert len(workers.sizes) == 1


def test_a_bandit_fits_the_same_with_any_pool(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SAMPLED", 5)
    monkeypatch.setattr(gathering, "chunks", lambda n, entries: posterior.chunks(n, 2**18 // 3))
    rng, beliefs = np.random.default_rng(0), []
    actions, y = rng.standard_normal((300, 3, 4)), rng.standard_normal(300)
    for pool in (None, "local", Elsewhere(3)):
        with SafeBandit(alpha=0.1, refits="manual", seed=0, pool=pool) as bandit:
            made = bandit.decide_many(
                [f"t{i % 12}" for i in range(300)], actions, baselines=np.zeros(300, int)
            )
            bandit.reward_many([d.id for d in made], y + actions[:, 0, 0])
            bandit.refit()
            beliefs.append(bandit._engine.model.belief)
    assert beliefs[0].known.all()
    for other in beliefs[1:]:
        np.testing.assert_array_equal(other.mean, beliefs[0].mean)
        np.testing.assert_array_equal(other.V, beliefs[0].V)


def test_a_store_is_opened_with_a_pool(tmp_path):
    SafeBandit(alpha=0.1, path=tmp_path / "s", seed=0).close()
    workers = Elsewhere(2)
    with SafeBandit.load(tmp_path / "s", pool=workers) as bandit:
        assert bandit._refitter._workers is workers


def test_pools_by_name():
    assert as_workers(None).shares == 1
    assert as_workers("local").shares >= 1
    with pytest.raises(SettingError, match="'dask' is unknown"):
        SafeBandit(alpha=0.1, pool="dask")
    with pytest.raises(SettingError, match="at least 1"):
        RayWorkers(shards=0)

"""Several writers of one store in PostgreSQL: two bandits here are two connections, as two processes are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from banister import SafeBandit
from banister.errors import (
    DataFileError,
    InputError,
    ModelFileError,
    ShapeError,
    StoreError,
)
from banister.online import following
from banister.online.ledger import Overtaken
from banister.safety.reasons import DRIFT
from online_world import World, same, trained
from places import connected, drop, needs_postgres, new_url, tamper
from test_online_guard import in_child

pytestmark = needs_postgres
COUNTED = "decisions", "left", "moved", "margin"  # of every task


@pytest.fixture
def url():
    place = new_url()
    yield place
    drop(place)


def pair(url: str, n: int = 400, **settings: Any) -> tuple[World, SafeBandit, SafeBandit]:
    world, one = trained(n, path=url, **settings)
    return world, one, SafeBandit.load(url)


def memory_of(bandit: SafeBandit) -> list[Any]:
    """Everything that a fit is made from, gates and counts."""
    engine = bandit._engine
    snapshot = engine.store.memory.snapshot()
    return [
        *(c for c in snapshot.seen() if c is not None), *snapshot.rows(),
        sorted(snapshot.since.items()), sorted(snapshot.retracted), engine.learner.gates.codes,
        [engine.store.decisions, engine.store.rewards, engine.store.drifts], engine.store.labels,
        *(getattr(engine.store.tallies, name).view[: len(engine.store.labels)] for name in COUNTED),
        engine.model.version,
    ]  # fmt: skip


def assert_same_memory(*bandits: SafeBandit) -> None:
    for bandit in bandits:
        bandit.status()
    first, *others = (memory_of(bandit) for bandit in bandits)
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("lag", "soon"), [(1, 60.0), (5, 60.0), (64, 60.0), (512, 0.01)])
def test_memory_is_the_same_in_all_and_in_one_that_comes_later(url, monkeypatch, lag, soon):
    """Random calls by three writers; whoever reads the ledger afterwards knows what they know."""
    monkeypatch.setattr(following, "LAG", lag)
    monkeypatch.setattr(following, "SOON", soon)
    world, one, two = pair(url, 200)
    three = SafeBandit.load(url)
    rng, waiting, bandits = np.random.default_rng(lag), [], [one, two, three]
    for _ in range(400):
        bandit, what = bandits[rng.integers(3)], rng.random()
        if what < 0.5 or not waiting:
            request = world.request(int(rng.integers(14)) % world.tasks)
            request["task"] += "-late" if rng.random() < 0.02 else ""
            waiting.append((bandit.decide(**request), request))
        elif what < 0.9:
            d, request = waiting.pop(int(rng.integers(len(waiting))))
            value = world.earn({"task": request["task"].removesuffix("-late")}, d.features)
            assert bandit.reward(d.id, value) == "accepted"
            assert bandits[rng.integers(3)].reward(d.id, value) == "duplicate"
        elif what < 0.97:
            requests = [world.request() for _ in range(3)]
            many = bandit.decide_many(
                [r["task"] for r in requests], np.stack([r["actions"] for r in requests]),
                baselines=[r["baseline"] for r in requests],
            )  # fmt: skip
            bandit.retract(many[0].id, "x") if bandit.reward(many[0].id, 9.0) == "accepted" else None
        else:
            bandit.refit()
    assert one._engine.store.ledger.head.decisions > 300
    with SafeBandit.load(url) as later:
        assert_same_memory(one, two, three, later)
    assert len({record.id for record in one._engine.store.ledger.decisions()}) == one.status().decisions
    for bandit in bandits:
        found = bandit.audit()
        assert found.passed, str(found)
        bandit.close()


def test_a_gate_that_one_shuts_is_shut_for_the_next_decision_of_the_other(url):
    world, one, two = pair(url)
    request = world.request(0)
    assert not two.decide(**request).reason.startswith("fallback")
    wrong = one.decide(**{**request, "baseline_reward": request["baseline_reward"] + 5.0})
    assert wrong.reason == "fallback:baseline-disagrees"
    assert two.decide(**request).reason == "fallback:drift"
    assert two.audit().passed


def test_the_last_gate_to_be_shut_is_shut_for_all(url):
    """A contradiction that rings no alarm, because no other gate is open, still reaches the other."""
    world, one, two = pair(url)
    code = one._engine.store.tasks["shop-0"]
    for bandit in (one, two):
        codes = bandit._engine.learner.gates.codes
        codes[np.arange(len(codes)) != code] = DRIFT
    request = world.request(0)
    one.decide(**{**request, "baseline_reward": request["baseline_reward"] + 5.0})
    assert one._engine.store.ledger.alarms() == []
    assert two.decide(**request).reason == "fallback:baseline-disagrees"


def test_a_drift_that_one_notices_shuts_the_gate_for_both_and_is_noted_once(url):
    world, one, two = pair(url)
    for i in range(80):
        request = world.request(0)
        d = (one, two)[i % 2].decide(**request)
        (two, one)[i % 2].reward(d.id, -5.0 * float(d.features @ world.theta[0]) - 7.0)
    alarms = one._engine.store.ledger.alarms()
    assert [a.task for a in alarms].count(one._engine.store.tasks["shop-0"]) == 1
    assert one.status()["shop-0"].gate == two.status()["shop-0"].gate == "drift"
    assert_same_memory(one, two)
    assert one.audit().passed


def test_what_was_gained_after_a_drift_counts_also_where_it_is_read_with_the_drift(url, monkeypatch):
    """The other is idle, and reads decisions, the alarm between them and a new model together."""
    monkeypatch.setattr(following, "SOON", 600.0)
    world, one, two = pair(url)
    request = world.request(0)
    one.decide(**{**request, "baseline_reward": request["baseline_reward"] + 5.0})
    world.play(one, 300)
    one.refit()
    left = [d for d in world.play(one, 60, task=0) if d.certified]
    shop = one._engine.store.tasks["shop-0"]
    assert [alarm.task for alarm in one._engine.store.ledger.alarms()] == [shop]
    assert one._engine.store.tallies.moved.view[shop] == len(left) > 0
    assert_same_memory(one, two)


def test_rewards_of_others_are_shown_to_the_watch(url, monkeypatch):
    """One takes in all rewards and is blind; the other notices all the same, and both know."""
    monkeypatch.setattr(following, "LAG", 1)
    world, one, two = pair(url)
    monkeypatch.setattr(one._engine.learner, "check", lambda *_: [])
    for _ in range(40):
        request = world.request(0)
        d = two.decide(**request)
        one.reward(d.id, -5.0 * float(d.features @ world.theta[0]) - 7.0)
        if two._engine.learner.gates.codes[two._engine.store.tasks["shop-0"]]:
            break
    assert two._engine.learner.gates.codes[two._engine.store.tasks["shop-0"]] == DRIFT  # before it is asked
    assert two.status()["shop-0"].gate == "drift"
    assert one.decide(**world.request(0)).reason == "fallback:drift"
    assert two.audit().passed


@pytest.mark.parametrize(
    ("lag", "soon", "least", "most"), [(6, 60.0, 3, 8), (512, 0.0, 0, 3), (512, 60.0, 54, 60)]
)
def test_what_others_write_waits_until_enough_has_gathered_or_some_time_has_passed(
    url, monkeypatch, lag, soon, least, most
):
    monkeypatch.setattr(following, "LAG", lag)
    monkeypatch.setattr(following, "SOON", soon)
    world, one, two = pair(url, 60)
    two._engine.refresh()
    waiting = []
    for _ in range(20):  # three records a round
        world.play(one, 1)
        two.decide(**world.request())
        store = two._engine.store
        waiting.append(store.ledger.head.links - store.known.links)
    assert least <= max(waiting) <= most


def test_a_new_model_serves_in_all_from_the_next_decision_on(url):
    world, one, two = pair(url)
    world.play(one, 50)
    assert one.refit() == 2
    assert two.decide(**world.request()).model_version == 2
    assert_same_memory(one, two)
    model = two._engine.model.belief
    np.testing.assert_array_equal(model.mean, one._engine.model.belief.mean)
    assert two.audit().passed


def test_one_at_a_time_refits_and_death_gives_the_right_back(url):
    _, one, two = pair(url, 60)
    mine, its = one._engine.store.ledger, two._engine.store.ledger
    assert mine.start_refit()
    assert not its.start_refit()
    db, _ = connected(url)
    db.execute("SELECT pg_terminate_backend(%s)", (mine._db.info.backend_pid,))
    for _ in range(100):
        if its.start_refit():
            break
        db.execute("SELECT pg_sleep(0.05)")
    else:
        pytest.fail("the right to refit was not given back")
    its.end_refit()
    assert two.refit() == 2


def test_who_is_not_the_one_that_refits_goes_on(url):
    """A refit that is due here while another process is at it is left to that one."""
    world, one, two = pair(url, 200)
    three = SafeBandit(alpha=0.1, path=url, refits="inline")
    assert one._engine.store.ledger.start_refit()
    world.play(three, 400)
    assert three.version == 1
    one._engine.store.ledger.end_refit()
    two.refit()
    world.play(three, 1)
    assert three.version == 2


def test_a_lost_connection_is_said_and_then_mended(url):
    world, one, two = pair(url, 60)
    db, _ = connected(url)
    db.execute("SELECT pg_terminate_backend(%s)", (one._engine.store.ledger._db.info.backend_pid,))
    world.play(two, 5)
    request = world.request()
    with pytest.raises(StoreError, match="make it again with the same key"):
        one.decide(**request, key="k")
    d = one.decide(**request, key="k")
    assert same(d, two.decide(**request, key="k"))
    assert_same_memory(one, two)
    assert one.audit().passed


def test_a_key_is_one_decision_whoever_is_asked(url, monkeypatch):
    world, one, two = pair(url, 60)
    request = world.request()
    first = one.decide(**request, key="k")
    asked = []

    def late(key: str) -> Any:
        asked.append(key)
        return None if len(asked) == 1 else type(ledger).find_key(ledger, key)

    ledger = two._engine.store.ledger
    monkeypatch.setattr(ledger, "find_key", late)  # as if the other had not been done when this one looked
    assert same(first, two.decide(**request, key="k"))
    assert len(asked) == 2
    assert two.status().decisions == 61


def test_two_rewards_of_one_decision_at_once(url, monkeypatch):
    world, one, two = pair(url, 60)
    d = one.decide(**world.request())
    ledger, seen = two._engine.store.ledger, []
    before = ledger.find(d.id)

    def late(number: int) -> Any:
        seen.append(number)
        return before if len(seen) == 1 else type(ledger).find(ledger, number)

    assert one.reward(d.id, 1.0) == "accepted"
    monkeypatch.setattr(ledger, "find", late)
    assert two.reward(d.id, 2.0) == "duplicate"
    assert (two.status().rewards, two.status().duplicates) == (61, 1)
    assert two.audit().passed


def test_two_that_meet_the_same_new_task_give_it_one_code(url):
    one, two = SafeBandit(path=url, refits="manual", seed=0), SafeBandit(path=url, refits="manual", seed=0)
    for bandit in (one, two):
        bandit.decide("a", np.eye(2), baseline=0)
    two.decide("b", np.eye(2), baseline=0)
    one.decide("c", np.eye(2), baseline=0)
    two.decide("c", np.eye(2), baseline=0)
    assert one._engine.store.ledger.tasks() == ["a", "b", "c"]
    assert_same_memory(one, two)


def test_the_number_of_features_is_the_same_for_all(url):
    one, two = SafeBandit(path=url, refits="manual", seed=0), SafeBandit(path=url, refits="manual", seed=0)
    one.decide("a", np.eye(3), baseline=0)
    with pytest.raises(ShapeError, match="works with 3"):
        two.decide("a", np.eye(2), baseline=0)
    with pytest.raises(ShapeError, match="works with 3"):
        two.decide_many(["a"], np.eye(2)[None], baselines=[0])
    assert two.status().decisions == 1


def test_ids_that_a_dead_process_had_are_not_used_and_nothing_misses_them(url):
    world, one, two = pair(url, 60)
    for i in range(20):
        world.play((one, two)[i % 2], 1)
    two.close()  # with an id in its hand
    world.play(one, 30)
    ids = [record.id for record in one._engine.store.ledger.decisions()]
    assert len(set(ids)) == 110
    assert max(ids) > 110
    with SafeBandit.load(url) as later:
        assert_same_memory(one, later)
        world.play(later, 5)
        assert later.audit().passed


def test_an_old_id_in_the_hand_of_one_is_not_used_behind_those_of_others(url):
    """An id stays within 256 of its place in the chain, so "from decision n on" means what it says."""
    world, one, two = pair(url, 60)
    for i in range(6):
        world.play((one, two)[i % 2], 1)
    for _ in range(300):
        two.decide(**world.request())
    held = one._engine.store.ledger._mine
    assert held is not None
    d = one.decide(**world.request())
    assert d.id > two._engine.store.ledger.last_id - 256 > held


def test_a_fork_is_refused(url):
    _, bandit = trained(20, path=url)

    said = in_child(lambda: bandit.decide("shop-0", np.ones((2, 8)), baseline=0))
    assert "after the fork" in said
    in_child(bandit.close)
    assert bandit.decide("shop-0", np.ones((2, 8)), baseline=0).id == 21


def test_a_store_moves_from_files_to_the_database(url, tmp_path):
    world, bandit = trained(300, path=tmp_path / "s.banister")
    world.play(bandit, 60)
    bandit.retract(7, "wrong")
    bandit.reward(8, 1.0)
    receipt = bandit.receipt()
    bandit.save(url)
    with SafeBandit.load(url) as moved:
        assert moved._engine.store.ledger.kept("tail") is None
        assert moved.receipt() == receipt
        assert moved.audit(receipt).passed
        assert_same_memory(bandit, moved)
        requests = [world.request() for _ in range(20)]
        assert all(same(bandit.decide(**r), moved.decide(**r)) for r in requests)
        with pytest.raises(InputError, match="pg_dump"):
            moved.save(tmp_path / "back.banister")
    assert [p.name for p in tmp_path.glob("back*")] == []


@pytest.mark.parametrize(
    ("statement", "error", "says"),
    [
        ("UPDATE meta SET value = '9' WHERE key = 'schema'", ModelFileError, "pip install -U"),
        ("UPDATE meta SET value = 'x' WHERE key = 'schema'", ModelFileError, "nobody has written"),
        ("DELETE FROM meta WHERE key = 'settings'", ModelFileError, "no settings"),
        ("DELETE FROM head", DataFileError, "head"),
        ("DROP TABLE logs", DataFileError, "lacks its own"),
        ("CREATE VIEW more AS SELECT 1 AS x", DataFileError, "did not make"),
        ("CREATE RULE r AS ON INSERT TO rewards DO INSTEAD NOTHING", DataFileError, "did not make"),
        ("ALTER TABLE rewards ADD COLUMN more text", DataFileError, "did not make"),
    ],
)
def test_tables_that_are_not_ours_are_refused(url, statement, error, says):
    SafeBandit(path=url, refits="manual").close()
    tamper(url, statement)
    with pytest.raises(error, match=says):
        SafeBandit.load(url)


def test_a_trigger_is_refused(url):
    SafeBandit(path=url, refits="manual").close()
    tamper(url, "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    tamper(url, "CREATE TRIGGER t BEFORE INSERT ON rewards FOR EACH ROW EXECUTE FUNCTION f()")
    with pytest.raises(DataFileError, match=r"function f|trigger t"):
        SafeBandit.load(url)


@pytest.mark.parametrize("opening", [SafeBandit.load, SafeBandit.open_read_only])
def test_a_store_that_is_not_there_is_not_made(url, opening):
    with pytest.raises(ModelFileError, match="There is no store"):
        opening(url)
    with pytest.raises(ModelFileError, match="There is no store"):
        opening(url)


def test_a_second_call_needs_no_third(url, monkeypatch):
    """A call that was overtaken has the ledger alone the next time, so it cannot be overtaken again."""
    world, one, two = pair(url, 60)
    ledger, tries = one._engine.store.ledger, []
    begin = ledger.begin
    monkeypatch.setattr(ledger, "begin", lambda alone: (begin(alone), tries.append(ledger.alone)))
    world.play(two, 1)
    one.decide(**world.request())
    assert tries == [False, True]
    with pytest.raises(Overtaken), ledger.transaction():
        ledger.add_task("x")
    assert ledger._alone_next


def test_full_durability_waits_for_the_disk_once_a_call(url, monkeypatch):
    _, bandit = trained(20, path=url, durability="full")
    ledger, said = bandit._engine.store.ledger, []
    cursor = ledger._cursor

    class Listening:
        def execute(self, statement: str, *values: Any, **more: Any) -> Any:
            said.append(statement)
            return cursor.execute(statement, *values, **more)

        def __getattr__(self, name: str) -> Any:
            return getattr(cursor, name)

    ledger._cursor = Listening()
    d = bandit.decide("shop-0", np.ones((2, 8)), baseline=0)
    bandit.reward(d.id, 1.0)
    assert sum("synchronous_commit" in statement for statement in said) == 2
    assert "synchronous_commit" in said[-1]


def test_a_reward_that_came_elsewhere_is_a_duplicate_also_where_the_decision_is_fresh(url):
    world, bandit = trained(200, path=url)
    d = bandit.decide(**world.request())
    with SafeBandit.load(url) as other:
        assert other.reward(d.id, 1.0) == "accepted"
        assert bandit.reward(d.id, 1.0) == "duplicate"
        assert other.retract(d.id, "x") == "retracted"
        assert bandit.reward(d.id, 1.0) == "retracted"


def test_every_reward_is_shown_to_every_watch_once(url, monkeypatch):
    monkeypatch.setattr(following, "LAG", 7)
    world, one, two = pair(url, 60)
    shown: dict[int, list[int]] = {0: [], 1: []}
    for i, bandit in enumerate((one, two)):
        watch = bandit._engine.learner.watch

        def counted(*rows: Any, i: int = i, see_many: Any = watch.see_many) -> Any:
            shown[i] += rows[3].tolist()
            return see_many(*rows)

        monkeypatch.setattr(watch, "see_many", counted)
    made = [d.id for i in range(60) for d in world.play((one, two)[i % 3 == 0], 1)]
    one.status(), two.status()
    assert sorted(shown[0]) == sorted(shown[1]) == sorted(made)


@pytest.mark.parametrize("lost", [False, True])
def test_a_ledger_that_was_cut_and_went_on_elsewhere_is_refused(url, lost):
    """Longer than what a process knows, but not its continuation."""
    world, one, two = pair(url, 60)
    two.close()
    *_, before, _ = ((link, head) for link, head, _ in one._engine.store.ledger.entries())
    db, _ = connected(url)
    db.execute("DELETE FROM models")
    db.execute("UPDATE head SET links = %s, hash = %s, models = 0", before)
    with SafeBandit.load(url) as other:
        world.play(other, 40)
    if lost:
        db.execute("SELECT pg_terminate_backend(%s)", (one._engine.store.ledger._db.info.backend_pid,))
        with pytest.raises(StoreError, match="connection was lost"):
            one.decide(**world.request())
    with pytest.raises(StoreError, match="no longer begins with"):
        world.play(one, 70)
    with pytest.raises(StoreError, match="no longer begins with"):
        one.receipt()


@pytest.mark.parametrize("call", ["decide", "reward", "refit"])
def test_a_ledger_that_was_cut_and_grew_to_the_same_length_is_refused(url, call):
    """As many records as a process knows, and the last of them another."""
    world, one, two = pair(url, 60)
    open_one, last = one.decide(**world.request()), one.decide(**world.request())
    one.reward(last.id, 1.0)
    *_, before, cut = ((link, head) for link, head, _ in one._engine.store.ledger.entries())
    db, _ = connected(url)
    db.execute("DELETE FROM rewards WHERE link = %s", cut[:1])
    db.execute("UPDATE head SET links = %s, hash = %s, rewards = rewards - 1", before)
    two.close()
    with SafeBandit.load(url) as other:
        other.reward(last.id, 2.0)
    calls = {
        "decide": lambda: one.decide(**world.request()),
        "reward": lambda: one.reward(open_one.id, 1.0),
        "refit": one.refit,
    }
    for _ in range(2):
        with pytest.raises(StoreError, match="no longer begins with"):
            calls[call]()
    with SafeBandit.load(url) as other:
        assert other.audit().passed
        assert other.status().decisions == 62


def test_a_model_that_serves_is_not_written_over(url):
    """A process that lost the right to refit without noticing may still be writing its parts."""
    _, one, two = pair(url, 60)
    model = one._engine.store.ledger.model(1)
    two._engine.store.ledger.add_part(1, 0, b"another model")
    assert one._engine.store.ledger.model(1) == model
    SafeBandit.load(url).close()


def test_mixtures_are_counted_over_all_processes(url):
    settings: dict[str, Any] = {
        "alpha": 0.3,
        "refits": "manual",
        "mixing": True,
        "norm_bound": 0.5,
        "seed": 3,
    }
    one = SafeBandit(path=url, max_mixtures=3, **settings)
    two = SafeBandit.load(url)
    request = {"task": "a", "actions": np.eye(4), "baseline": 1, "baseline_reward": 1.0}
    actions = [(one, two)[i % 2].decide(**request).action for i in range(8)]
    assert actions == [-1, -1, -1, 1, 1, 1, 1, 1]


def test_an_id_in_the_hand_lets_no_decision_pass_a_gate_that_was_shut(url):
    world, one, two = pair(url)
    for i in range(6):
        world.play((two, one)[i % 2], 1)
    assert two._engine.store.ledger._mine is not None
    request = world.request(0)
    one.decide(**{**request, "baseline_reward": request["baseline_reward"] + 5.0})
    assert two.decide(**request).reason == "fallback:drift"
    assert two.audit().passed


@pytest.mark.parametrize("promise", ["task", "fleet"])
def test_savings_are_spent_once_whoever_spends_them(url, promise):
    """Draws, batches and rewards by two writers: one account, the same in both and in a later one."""
    settings = {
        "promise": promise,
        "reward_range": (0, 1),
        "seed": 3,
        "refits": "manual",
        "keep_actions": True,
    }
    one = SafeBandit(alpha=0.1, path=url, **settings)
    two = SafeBandit.load(url)
    rng, actions = np.random.default_rng(0), np.eye(4)
    for i in range(500):
        bandit, other = (one, two) if rng.random() < 0.5 else (two, one)
        if rng.random() < 0.1:
            made = bandit.decide_many(["a", "b"], np.stack([actions, actions]), baselines=[1, 1])
        else:
            made = [bandit.decide("ab"[i % 2], actions, baseline=1)]
        for d in made:
            if rng.random() < 0.9:
                (other if rng.random() < 0.5 else bandit).reward(d.id, float(rng.random() < 0.4))
                rewarded = d.id
        if i == 250:
            one.refit()
            two.retract(rewarded, "a test order")
    three = SafeBandit.load(url)
    for bandit in (one, two, three):
        bandit._engine.refresh()
    states = [(b._engine.account.budget.state(), b._engine.account.waiting) for b in (one, two, three)]
    for state, waiting in states[1:]:
        assert waiting == states[0][1]
        for name, value in state.items():
            np.testing.assert_array_equal(value, states[0][0][name])
    found = three.audit()
    assert found.passed, str(found)
    for bandit in (one, two, three):
        bandit.close()

"""The live page in a real browser against a running service: its numbers are the ledger's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

import banister as bn
from browser import Tab, browser
from online_world import trained
from reading import hard_to_read, overprinted
from serve_world import LINES, TOKENS, as_json, make_store, serving
from test_online_drift import change, play_unlabelled

READY = "document.documentElement.dataset.ready"
LIVE = "document.getElementById('live').dataset.state === 'live'"
ROWS = "[...document.querySelectorAll('#rows tr')].map(r => r.dataset.task)"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    path = tmp_path_factory.mktemp("page") / "shop.banister"
    make_store(path)
    with serving(path, refresh=0.05) as (url, _):
        yield url, path


def opened(tab: Tab, url: str, more: str = "", width: int = 1440) -> Tab:
    tab.errors.clear()
    tab.size(width, 1000, phone=width < 700)
    tab.go(f"{url}/{more}")
    tab.wait(READY)
    return tab


def text(tab: Tab, selector: str) -> str:
    return str(tab.run(f"document.querySelector({json.dumps(selector)}).textContent"))


def value(tab: Tab, name: str) -> float:
    return float(tab.run(f"document.querySelector('[data-field={name}]').dataset.value"))


def test_the_numbers_are_the_ledgers(tab: Tab, shop: tuple[str, Path]) -> None:
    """Counted here from the rows of the ledger, without the code that serves them."""
    url, path = shop
    opened(tab, url)
    with bn.SafeBandit.open_read_only(path) as bandit:
        ledger, status = bandit._engine.store.ledger, bandit.status()
        records, rewards = list(ledger.decisions()), list(ledger.rewards())
    assert value(tab, "decisions") == len(records)
    assert value(tab, "rewards") == len(rewards)
    assert value(tab, "pending") == len(records) - len(rewards)
    moved = sum(r.action != r.baseline for r in records)
    assert value(tab, "left") == pytest.approx(moved / len(records))
    assert moved > 10
    by_hand = sum(t.moved * t.uplift for t in status.tasks if t.uplift is not None) / len(records)
    assert value(tab, "gain") == pytest.approx(by_hand)
    low, high = (float(tab.run(f"document.getElementById('gain').dataset.{end}")) for end in ("low", "high"))
    assert low < by_hand < high
    gates = tab.run(
        "Object.fromEntries([...document.querySelectorAll('[data-gate]')]"
        ".map(g => [g.dataset.gate, +g.dataset.count]))"
    )
    assert gates == {"open": len(status.tasks)}
    rows = tab.run("[...document.querySelectorAll('#rows tr')].map(r => [r.dataset.task, r.dataset.uplift])")
    assert {t: float(u) for t, u in rows if u} == pytest.approx(
        {t.task: t.uplift for t in status.tasks if t.uplift}
    )
    assert tab.errors == []


def test_nothing_is_loaded_from_elsewhere(tab: Tab, shop: tuple[str, Path]) -> None:
    opened(tab, shop[0])
    loaded = tab.run("performance.getEntriesByType('resource').map(e => e.name)")
    assert len(loaded) > 5
    assert all(name.startswith(shop[0]) for name in loaded)
    tab.run("new Promise(r => { const s = document.createElement('script'); s.textContent = 'window.x = 1'; "
            "document.body.append(s); setTimeout(r, 50); })")  # fmt: skip
    assert tab.run("window.x") is None  # what is not a file of its own does not run


def test_everything_can_be_done_with_the_keyboard(tab: Tab, shop: tuple[str, Path]) -> None:
    opened(tab, shop[0])
    tab.press("/", "/")
    tab.type("shop-1")
    tab.wait(f"{ROWS}.length === 3")
    assert sorted(tab.run(ROWS)) == ["shop-1", "shop-10", "shop-11"]
    for _ in range(2):
        tab.press("Tab")  # the gates' list, then the table's own scroll area
    tab.press("Tab")
    assert tab.run("document.activeElement.closest('th').dataset.column") == "task"
    tab.press("Enter")
    tab.wait("document.querySelector('th[data-column=task]').ariaSort === 'ascending'")
    tab.wait(f"{ROWS}.join() === 'shop-1,shop-10,shop-11'")
    tab.press("Enter")
    tab.wait(f"{ROWS}.join() === 'shop-11,shop-10,shop-1'")
    assert tab.run("document.activeElement.closest('th').dataset.column") == "task"
    while tab.run("document.activeElement.className") != "link":
        tab.press("Tab")
    tab.press("Enter")
    tab.wait("document.getElementById('detail').open && document.querySelector('#detail-body tbody tr')")
    assert text(tab, "#detail-title") == "shop-11"
    tab.press("Escape")
    tab.wait("!document.getElementById('detail').open")
    assert tab.errors == []


def test_a_task_and_a_decision_are_shown_as_the_ledger_has_them(tab: Tab, shop: tuple[str, Path]) -> None:
    url, path = shop
    with bn.SafeBandit.open_read_only(path) as bandit:
        store = bandit._engine.store
        record = next(r for r in store.ledger.decisions() if r.moved)
        task = store.labels[record.task]
        own = [r.id for r in store.ledger.decisions() if r.task == record.task]
    opened(tab, url, f"#task/{task}")
    tab.wait("document.querySelector('#detail-body tbody tr')")
    shown = tab.run("[...document.querySelectorAll('[data-decision]')].map(r => +r.dataset.decision)")
    assert shown == own[::-1][:60]
    assert text(tab, "[data-fact=decisions]") == str(len(own))
    assert tab.run("document.querySelectorAll('#detail-body circle').length") > 10
    tab.run(f"document.querySelector('[data-decision=\"{record.id}\"] button').click()")
    tab.wait("document.getElementById('why')")
    said = text(tab, "#why")
    assert f"Action {record.action} was played instead of the baseline, action {record.baseline}." in said
    assert f"{record.bound:.3g}".replace("-", "−") in said
    assert tab.run("document.querySelectorAll('#detail-body rect').length") == 2 * 9  # 8 features and a level
    tab.run("document.getElementById('up').click()")
    tab.wait(f"document.getElementById('detail-title').textContent === {json.dumps(task)}")
    assert tab.errors == []


def make_drawing_store(path: Path) -> None:
    """A store that draws under a promise for each task, with rewards."""
    rng = np.random.default_rng(3)
    with bn.SafeBandit(
        0.1, path=path, reward_range=(0, 1), promise="task", refits="manual", seed=4
    ) as bandit:
        for i in range(600):
            if i == 300:
                bandit.refit()
            A = np.c_[np.ones(3), rng.standard_normal((3, 2))]
            earns = np.clip(0.5 + 0.1 * A[:, 1], 0, 1)
            made = bandit.decide(f"shop-{i % 3}", A, baseline=0, baseline_reward=float(earns[0]))
            bandit.reward(made.id, float(earns[made.action]))


def test_draws_are_shown_with_what_they_measured(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "draws.banister"
    make_drawing_store(path)
    with bn.SafeBandit.open_read_only(path) as bandit:
        status, ledger = bandit.status(), bandit._engine.store.ledger
        record = next(r for r in ledger.decisions() if r.moved)
    with serving(path) as (url, _):
        opened(tab, url)
        shown = [
            float(tab.run(f"document.getElementById('gain').dataset.{end}"))
            for end in ("low", "value", "high")
        ]
        assert shown == pytest.approx([status.gain_low, status.gain, status.gain_high])
        assert text(tab, "#gain-kind") == "measured, valid at any time"
        heads = tab.run("[...document.querySelectorAll('th')].map(h => h.dataset.column)")
        assert {"rows_needed", "gain", "saved", "worst_margin", "uplift"} <= set(heads)
        needed = tab.run(
            "[...document.querySelectorAll('#rows tr')].map(r => [r.dataset.task, r.children["
            f"{heads.index('rows_needed')}].textContent])"
        )
        assert dict(needed) == {t.task: f"{t.rows_needed:,}" for t in status.tasks}
        tab.run("document.querySelector('th[data-column=rows_needed] button').click()")
        tab.wait("document.querySelector('th[data-column=rows_needed]').ariaSort === 'descending'")
        tab.run("location.hash = '#task/shop-0'")
        tab.wait("document.querySelector('[data-fact=gain]')")
        assert text(tab, "[data-fact=needed]") == f"{status['shop-0'].rows_needed:,}"
        assert tab.run("document.querySelectorAll('#detail-body .floor').length") == 0
        tab.run(f"location.hash = '#decision/{record.id}'")
        tab.wait("document.getElementById('why')")
        said = text(tab, "#why")
        assert f"drawn with probability {100 * record.probability:.1f} %" in said
        assert "above the floor" not in said  # its bound is what was saved
    assert [e for e in tab.errors if "ERR_" not in e] == []


def test_what_happens_is_shown_without_a_reload(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "live.banister"
    world = make_store(path)
    with serving(path, refresh=0.05) as (url, _):
        opened(tab, url).wait(LIVE)
        assert tab.run("document.querySelectorAll('#feed li[data-kind]').length") == 1
        for _ in range(5):
            httpx.post(f"{url}/v1/decisions", json=as_json(world.request())).raise_for_status()
        tab.wait("document.getElementById('decisions').dataset.value === '465'")
        httpx.post(f"{url}/v1/refits", json={}).raise_for_status()
        tab.wait("document.querySelectorAll('#feed li[data-kind=refit]').length === 2")
        assert "model 2 serves" in text(tab, "#feed li")
        tab.wait("document.getElementById('model').dataset.value === '2'")
    tab.wait("document.getElementById('live').dataset.state === 'lost'")


def test_ten_thousand_tasks_are_searched_and_paged(tab: Tab, tmp_path: Path) -> None:
    path, labels = tmp_path / "many.banister", [f"store-{i:05d}" for i in range(10_000)]
    with bn.SafeBandit(0.1, path=path, refits="manual") as bandit:
        bandit.decide_many(labels, np.ones((10_000, 2, 2)), baselines=np.zeros(10_000, dtype=int))
    with serving(path) as (url, _):
        opened(tab, url)
        assert text(tab, "#page") == "1–50 of 10,000"
        assert tab.run("document.querySelectorAll('#rows tr').length") == 50
        tab.run("document.getElementById('more').click()")
        tab.wait("document.getElementById('page').textContent === '51–100 of 10,000'")
        tab.run("document.getElementById('search').focus()")
        tab.type("0777")
        tab.wait("document.getElementById('page').textContent === '1–11 of 11'")
        wanted = [label for label in labels if "0777" in label]
        assert sorted(tab.run(ROWS)) == wanted
    assert [e for e in tab.errors if "ERR_" not in e] == []


def test_a_token_is_asked_for_and_a_wrong_one_is_told(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "locked.banister"
    make_store(path, n=30)
    with serving(path, tokens=LINES) as (url, _):
        tab.go(url)
        tab.run("sessionStorage.clear()")
        tab.go(f"{url}/?again")
        tab.wait("document.getElementById('ask').open")
        assert tab.run("document.querySelectorAll('#rows tr').length") == 0
        for secret, said in ((TOKENS["decide"], "this needs 'read'"), ("wrong", "Authorization")):
            tab.type(secret)
            tab.press("Enter")
            tab.wait(f"document.getElementById('ask-wrong').textContent.includes({json.dumps(said)})")
        tab.type(TOKENS["read"])
        tab.press("Enter")
        tab.wait(READY)
        assert value(tab, "decisions") == 90


def test_a_label_is_text_whatever_it_says(tab: Tab, tmp_path: Path) -> None:
    path, label = tmp_path / "odd.banister", '<img src=x onerror="window.hit=1"> / "q" ? # %'
    with bn.SafeBandit(0.1, path=path, refits="manual") as bandit:
        bandit.decide(label, np.eye(2), baseline=0)
    with serving(path) as (url, _):
        opened(tab, url)
        assert tab.run(ROWS) == [label]
        tab.run("document.querySelector('#rows .link').click()")
        tab.wait("document.querySelector('#detail-body tbody tr')")
        assert text(tab, "#detail-title") == label
        assert tab.run("window.hit") is None


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(tab: Tab, shop: tuple[str, Path], scheme: str, width: int) -> None:
    tab.scheme(scheme)
    url, path = shop
    with bn.SafeBandit.open_read_only(path) as bandit:
        moved = next(r.id for r in bandit._engine.store.ledger.decisions() if r.moved)
    places = {"": READY, "#task/shop-1": "document.querySelector('#detail-body tbody tr')",
              f"#decision/{moved}": "document.getElementById('why')"}  # fmt: skip
    for place, there in places.items():
        tab.go("about:blank")
        opened(tab, url, place, width).wait(there)
        assert hard_to_read(tab) == {}, place
        assert overprinted(tab) == [], place
        shown = "document.querySelector('dialog[open]') ?? document.body"
        assert tab.run(f"(e => e.scrollWidth - e.clientWidth)({shown})") <= 0
    tab.scheme("light")


def test_what_is_too_faint_or_overprinted_is_found(tab: Tab, shop: tuple[str, Path]) -> None:
    opened(tab, shop[0])
    tab.run("document.getElementById('left-title').style.cssText = 'color: #999'")
    tab.run("document.getElementById('gates-title').style.cssText = 'opacity: .5'")
    assert hard_to_read(tab).keys() == {"Left the baseline", "Gates"}
    tab.run("document.getElementById('left-range').style.cssText = 'margin-top: -30px'")
    assert overprinted(tab) != []


def test_the_theme_is_turned_by_a_button(tab: Tab, shop: tuple[str, Path]) -> None:
    opened(tab, shop[0])
    card = "getComputedStyle(document.documentElement).getPropertyValue('--card').trim()"
    assert tab.run(card) == "#ffffff"
    tab.run("document.getElementById('theme').click()")
    assert tab.run(card) != "#ffffff"
    assert hard_to_read(tab) == {}
    tab.run("localStorage.clear()")


def test_a_store_without_a_decision_claims_nothing(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "empty.banister"
    bn.SafeBandit(0.1, path=path, refits="manual").close()
    with serving(path) as (url, _):
        opened(tab, url)
        said = [text(tab, place) for place in ("#gain", "#gain-range", "#left", "#page")]
        assert said == ["–", "Nothing has left the baseline yet.", "–", "no task yet"]
        tab.run("document.getElementById('search').focus()")
        tab.type("x")
        tab.wait("document.getElementById('page').textContent === 'no task matches'")


def test_an_alarm_takes_back_what_was_earned_but_not_that_something_left(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "alarm.banister"
    world, bandit = trained(500, path=path)
    play_unlabelled(world, bandit, 20, 0)
    change(world, 0)
    play_unlabelled(world, bandit, 30, 0)
    bandit.close()
    with serving(path) as (url, _):
        opened(tab, url)
        assert text(tab, "#gain-range") == "What leaving the baseline earns now is not known yet."
        assert value(tab, "left") > 0
        assert "drift of shop-0" in text(tab, "#feed")
        shown = "getComputedStyle(document.querySelector('[data-gate={}] i')).backgroundColor"
        assert tab.run(shown.format("drift")) != tab.run(shown.format("open"))
        assert hard_to_read(tab) == {}
    tab.wait("document.getElementById('live').dataset.state === 'lost'")
    assert hard_to_read(tab) == {}  # what is old can still be read


def test_shut_gates_have_a_colour_of_their_own(tab: Tab, shop: tuple[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "shut.banister"
    colour = "getComputedStyle(document.querySelector('#gates-bar i')).backgroundColor"
    with bn.SafeBandit(0.1, path=path, refits="manual") as bandit:
        bandit.decide("shop", np.eye(2), baseline=0)
    opened(tab, shop[0])
    of_open = tab.run(colour)
    with serving(path) as (url, _):
        opened(tab, url)
        assert tab.run(colour) != of_open


@pytest.mark.parametrize("width", [320, 390, 768, 1180, 1440, 2560])
def test_no_width_makes_the_page_scroll_sideways(tab: Tab, shop: tuple[str, Path], width: int) -> None:
    opened(tab, shop[0])
    tab.size(width, 900, phone=width < 700)
    time.sleep(0.2)
    assert tab.run("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    boxes = tab.run(
        "[...document.querySelectorAll('main > .card')].map(c => c.getBoundingClientRect())"
        ".map(b => [b.left, b.top, b.right, b.bottom])"
    )
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], "two cards overlap"

"""The study of promises: its rows, its summary, its picture."""

import re

import polars as pl
import pytest

from banister.report.promises import INK, PAPER, draw, themed
from banister.report.style import COLOURS, LOOKS
from banister.studies.promises import MARKS, PLAYERS, WORLDS, Plan, play, summary

PLAN = Plan(worlds=("banners",), players=("baseline", "oracle", "task"), tasks=4, decisions=200, trials=2)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("player", PLAYERS)
def test_every_player_plays_every_world(world, player):
    plan = Plan(worlds=(world,), players=(player,), tasks=3, decisions=75, trials=1)
    rows = play(plan, world, player, 0)
    assert rows["decisions"].to_list() == [3 * (i + 1) for i in range(MARKS)]
    assert (rows["captured"].drop_nans() <= 1.0 + 1e-9).all()
    assert player in LOOKS


def test_the_ends_of_the_scale_are_the_baseline_and_the_oracle():
    rows = pl.concat([play(PLAN, *game) for game in PLAN.games()])
    found = {row["policy"]: row for row in summary(rows).iter_rows(named=True)}
    assert found["baseline"]["captured"] == pytest.approx(0.0)
    assert found["oracle"]["captured"] == pytest.approx(1.0)
    assert found["baseline"]["gain"] == pytest.approx(0.0)
    assert found["oracle"]["trials"] == 2
    assert found["task"]["tasks_ever"] == found["task"]["fleet"] == 0


def test_the_summary_by_hand():
    rows = pl.DataFrame({
        "world": ["w"] * 4, "policy": ["p"] * 4, "trial": [0, 0, 1, 1], "decisions": [10, 20, 10, 20],
        "captured": [0.9, 0.2, 0.9, 0.4], "below": [0.5, 0.1, 0.5, 0.3], "tasks_ever": [9, 1, 9, 2],
        "tasks_now": [9, 0, 9, 1], "fleet": [0, 0, 3, 3], "gain": [9.0, 1.0, 9.0, 2.0],
    })  # fmt: skip
    only = summary(rows).row(0, named=True)
    assert (only["captured"], only["below"]) == pytest.approx((0.3, 0.2))
    assert (only["tasks_ever"], only["tasks_now"], only["fleet"], only["trials"]) == (1.5, 0.5, 1, 2)


def test_trials_are_paired_and_repeat_themselves():
    first, again = (play(PLAN, "banners", "task", 1) for _ in range(2))
    assert first.equals(again)
    assert not first.equals(play(PLAN, "banners", "task", 0))


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_every_colour_can_be_read_on_its_paper(side):
    for pair in (INK, *COLOURS.values()):
        darker, lighter = sorted([_luminance(pair[side]), _luminance(PAPER[side])])
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_the_picture_changes_every_colour_it_has_in_the_dark(tmp_path):
    rows = pl.concat([play(PLAN, *game) for game in PLAN.games()])
    draw(rows, 4, tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    body, sheet = text.split("</style>")[1], text.split("</style>")[0]
    used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", body))
    assert used >= {PAPER[0], INK[0], LOOKS["task"].colour}
    for colour in used:
        assert f'fill: {colour}"' in sheet, colour
    assert "promise: task" in body
    assert "Oracle" not in body  # the scale's end needs no line


def test_a_theme_leaves_the_light_colours_in_place():
    svg = '<svg><style>*{}</style><path style="stroke: #0072b2"/></svg>'
    dark = themed(svg)
    assert dark.endswith('</style><path style="stroke: #0072b2"/></svg>')
    assert '[style*="stroke: #0072b2"] { stroke: #3b9fdc !important }' in dark

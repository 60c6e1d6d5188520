"""The tables of docs/policies.md are what the classes say."""

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

import banister as bn
from banister.errors import BanisterError
from banister.policies._card import NONE, Card
from banister.policies.table import cards_of, policies, updated

PAGE = Path(__file__).parents[1] / "docs" / "policies.md"
every_policy = pytest.mark.parametrize("cls", policies(), ids=lambda c: c.__name__)


def test_the_page_is_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert updated(page) == page, "run `make docs`"


def test_every_policy_is_on_the_page():
    assert {bn.SafeAltGDmin, bn.BaselineOnly, bn.Oracle, bn.ConservativeThompson} <= set(policies())
    page = PAGE.read_text(encoding="utf-8")
    for cls in policies():
        assert page.count(f"| `{cls.__name__}`") == 2 * len(cards_of(cls))


@every_policy
def test_what_a_card_says_can_be_given_is_a_parameter(cls):
    known = {name for base in cls.__mro__ for name in inspect.signature(base.__init__).parameters}
    for card in cards_of(cls):
        for name in ("noise", "norm_bound", "horizon", "rank"):
            said = getattr(card, name)
            assert said == NONE or name in known or "given" not in said
            if name in known and name in ("noise", "norm_bound", "rank"):
                assert said != NONE or card.mode, f"{cls.__name__} takes {name} but its card does not say so"


@every_policy
def test_a_card_fits_a_table(cls):
    for card in cards_of(cls):
        for f in fields(Card):
            assert not set("|\n") & set(getattr(card, f.name))


def test_a_policy_without_a_card_is_named():
    class Plain:
        pass

    with pytest.raises(BanisterError, match="Plain"):
        cards_of(Plain)

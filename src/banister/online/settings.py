"""What a `SafeBandit` was asked to be: checked once, kept in the ledger and in every model file."""

from __future__ import annotations

import sys
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from banister.errors import ModelFileError, SettingError
from banister.online.door import check_number
from banister.policies.certified_mode import DOUBLED, EAGER
from banister.policies.schedules import GrowthSchedule
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.exploration import ConservativeMixture
from banister.safety.promise import ON_HARM, Promise, Terms, check_range

REFITS = ("background", "inline", "manual")
DURABILITY = ("normal", "full")
SETTINGS = 2  # the version written; 1, the first release's, said nothing of itself
_LARGEST = sys.float_info.max  # whole numbers beyond it are less than infinity, and no float has them
_FREE = ("refits", "growth", "durability", "expire_after", "keep_actions", "keep_models")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """See `SafeBandit` for what each means. But for those in `_FREE` they belong to a store for life."""

    alpha: float
    confidence: float
    rank: int | None
    literal_floor: bool
    mixing: bool
    norm_bound: float | None
    max_mixtures: int
    drift_guard: bool
    seed: int
    refits: str
    growth: float | None
    durability: str
    expire_after: float | None
    keep_actions: bool
    keep_models: bool
    promise: str = Promise.DECISION.value
    reward_range: tuple[float, float] | None = None
    holdout: float = 0.0
    randomise: bool = False
    on_harm: str = ON_HARM[0]

    def __post_init__(self) -> None:
        Constraint(self.alpha)
        _check_confidence(self.confidence)
        _check_rank(self.rank)
        _check_seed(self.seed)
        _check_expiry(self.expire_after)
        for name in ("literal_floor", "mixing", "drift_guard", "keep_actions", "keep_models", "randomise"):
            if not isinstance(getattr(self, name), bool):
                raise SettingError(f"{name}={getattr(self, name)!r} must be True or False.")
        _check_choice("refits", self.refits, REFITS)
        _check_choice("durability", self.durability, DURABILITY)
        _check_growth(self.growth)
        _check_mixing(self)
        _check_draws(self)

    @property
    def constraint(self) -> Constraint:
        """The floor."""
        return Constraint(float(self.alpha), self.literal_floor)

    def believer(self) -> Believer:
        """What makes beliefs."""
        return Believer(confidence=float(self.confidence), rank=self.rank)

    def terms(self) -> Terms | None:
        """What draws must keep to; None where nothing is drawn."""
        return self._terms() if self.randomise else None

    def sentence(self) -> str:
        """The promise in one plain sentence."""
        return self._terms().sentence()

    def _terms(self) -> Terms:
        return Terms(
            promise=Promise(self.promise), alpha=float(self.alpha), confidence=float(self.confidence),
            reward_range=self.reward_range, holdout=self.holdout, seed=self.seed,
            on_harm="stop" if self.on_harm == "stop" else "free", expire_after=self.expire_after,
        )  # fmt: skip

    def mixture(self) -> ConservativeMixture | None:
        """How the baseline is left while nothing is certified; None where mixtures cannot be played."""
        if not self.mixing:
            return None
        return ConservativeMixture(plays=self.max_mixtures, norm_bound=self.norm_bound)

    def schedule(self, settled: bool) -> GrowthSchedule:
        """When to fit again: often while rows can open something, later less; or by the share given."""
        if self.growth is not None:
            return GrowthSchedule(first=EAGER.first, share=self.growth)
        return DOUBLED if settled else EAGER

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"version": SETTINGS, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Any, where: str) -> Settings:
        """Settings that were written by `to_dict`, now or by an older version.

        A field that is younger than the store takes its default, so a new field must have one.
        """
        if not isinstance(values, dict):
            raise ModelFileError(f"{where} has settings that are no mapping; restore it from a copy.")
        version, own = values.get("version", 1), {k: v for k, v in values.items() if k != "version"}
        if not isinstance(version, int) or version > SETTINGS:
            raise ModelFileError(
                f"{where} has settings of version {version!r}, this version of banister reads up to "
                f"{SETTINGS}; install a later one: pip install -U banister."
            )
        needed = {f.name for f in fields(cls) if f.default is MISSING}
        known = {f.name for f in fields(cls)}
        if not needed <= set(own) <= known:
            raise ModelFileError(
                f"{where} has settings that this version cannot read: {sorted(needed ^ set(own))}; restore "
                "it from a copy."
            )
        return cls._checked(own, where)

    @classmethod
    def _checked(cls, values: dict[str, Any], where: str) -> Settings:
        bounds = values.get("reward_range")
        if isinstance(bounds, list):  # JSON knows no tuples
            values = {**values, "reward_range": tuple(bounds)}
        try:
            return cls(**values)
        except (SettingError, TypeError) as reason:
            raise ModelFileError(f"{where} has settings that cannot be: {reason}") from None

    def over(self, stored: Settings, where: str) -> Settings:
        """These settings for a store that has some: what may change does, the seed stays."""
        self.check_same(stored, where)
        return replace(self, seed=stored.seed)

    @property
    def free_settings(self) -> tuple[str, ...]:
        """Those that may change; what a missing reward means may not, once savings were counted with it."""
        return tuple(n for n in _FREE if n != "expire_after" or not self.randomise)

    def check_same(self, stored: Settings, where: str) -> None:
        """What decides what may be played cannot change under a ledger's feet."""
        for field in fields(self):
            own, kept = getattr(self, field.name), getattr(stored, field.name)
            if field.name not in (*self.free_settings, "seed") and own != kept:
                raise SettingError(
                    f"{where} was made with {field.name}={kept!r} and is now opened with {own!r}; open it "
                    "with SafeBandit.load, or start a new store."
                )


def draws(promise: Any, reward_range: Any, holdout: Any, randomise: Any) -> dict[str, Any]:
    """What was left to be chosen: a range of rewards asks for draws, and for a promise about totals."""
    bounds = None if reward_range is None else check_range(reward_range)
    if promise is None:
        promise = Promise.DECISION if bounds is None or randomise is False else Promise.TASK
    elif not isinstance(promise, str):
        raise SettingError(f"promise={promise!r} must be one of {', '.join(repr(p.value) for p in Promise)}.")
    saved = promise in (Promise.TASK, Promise.FLEET)
    if randomise is None:
        randomise = saved or bounds is not None
    usual = Promise(promise).usual_holdout if promise in tuple(Promise) else 0.0
    share = usual if holdout is None else check_number(holdout, "holdout")
    return {
        "promise": str(promise), "reward_range": bounds, "holdout": share, "randomise": randomise,
    }  # fmt: skip


def _check_confidence(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < 1:
        raise SettingError(f"confidence={value!r} must be a number strictly between 0 and 1.")


def _check_rank(value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise SettingError(
            f"rank={value!r} must be a whole number, at least 1, or None to find it in the data."
        )


def _check_seed(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SettingError(f"seed={value!r} must be a whole number, at least 0, or None to draw one.")


def _check_expiry(value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (number and 0 < value <= _LARGEST):
        raise SettingError(f"expire_after={value!r} must be a positive number of seconds, or None for never.")


def _check_growth(value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (number and 0 < value <= _LARGEST):
        raise SettingError(f"growth={value!r} must be a positive share, such as 0.5, or None to choose it.")


def _check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if not (isinstance(value, str) and value in known):
        raise SettingError(f"{name}={value!r} must be one of {', '.join(map(repr, known))}.")


def _check_draws(settings: Settings) -> None:
    _check_choice("promise", settings.promise, tuple(p.value for p in Promise))
    _check_choice("on_harm", settings.on_harm, ON_HARM)
    if settings.randomise:
        settings.terms()
    elif Promise(settings.promise).paid_from_savings:
        raise SettingError(
            f"promise={settings.promise!r} is kept by draws; randomise=False can only keep 'decision'."
        )
    if settings.randomise and settings.mixing:
        raise SettingError("mixing=True plays mixtures of features and randomise=True draws; choose one.")


def _check_mixing(settings: Settings) -> None:
    bound, plays = settings.norm_bound, settings.max_mixtures
    if bound is not None and (
        isinstance(bound, bool) or not isinstance(bound, (int, float)) or not bound >= 0
    ):
        raise SettingError(f"norm_bound={bound!r} must be a number, at least 0.")
    if isinstance(plays, bool) or not isinstance(plays, int) or plays < 1:
        raise SettingError(f"max_mixtures={plays!r} must be a whole number, at least 1.")
    if settings.mixing and bound is None:
        raise SettingError(
            "mixing=True needs norm_bound: how far a mixture may leave the baseline (Lemma l8) rests on a "
            "bound on ‖θ_t‖, which rewards alone cannot give."
        )

"""A decision's record: what the model that serves says to one request; nothing is written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from banister.data import Float
from banister.learner.drawer import Drawer
from banister.learner.memory import Memory
from banister.online.door import Request
from banister.online.mixing import mixed
from banister.online.record import MIXTURE, DecisionRecord
from banister.safety.draw import pick, uniform
from banister.safety.exploration import ConservativeMixture
from banister.safety.reasons import WORDS

if TYPE_CHECKING:
    from banister.online.engine import Engine


def judged(
    engine: Engine, request: Request, task: int, number: int, digest: int,
    mixture: ConservativeMixture | None, key: str | None,
) -> DecisionRecord:  # fmt: skip
    """The decision's record; nothing is written."""
    if engine.drawer is not None:
        return _drawn(engine, engine.drawer, request, task, number, digest, key)
    chosen, bound, floor, code = engine.learner.decide_one(
        task, request.actions, request.baseline, request.low, request.high, request.std
    )
    certified = chosen >= 0
    action = chosen if certified else request.baseline
    features = request.actions[action]
    if mixture is not None and not certified and engine.store.mixtures < mixture.plays:
        explored = mixed(mixture, request, engine.settings.constraint, engine.settings.seed, number)
        if explored is not None:
            action, (features, bound) = MIXTURE, explored
    verdict = certified, WORDS[code], bound, floor
    return _record(engine, request, task, number, digest, key, action, features, verdict)


def _drawn(
    engine: Engine, drawer: Drawer, request: Request, task: int, number: int, digest: int, key: str | None
) -> DecisionRecord:
    made = drawer.draw(task, request.actions, request.baseline, request.low, request.high, request.std)
    action = pick(made.probabilities, uniform(engine.settings.seed, str(number)))
    certified = action == made.certified
    verdict = certified, WORDS[made.code_of(action)], made.bound, made.floor
    record = _record(engine, request, task, number, digest, key, action, request.actions[action], verdict)
    return record._replace(
        probability=float(made.probabilities[action]), probabilities=made.probabilities.tobytes(),
        promise=drawer.terms.promise.value, limited_by=made.limited_by,
    )  # fmt: skip


def _record(
    engine: Engine, request: Request, task: int, number: int, digest: int, key: str | None, action: int,
    features: Float, verdict: tuple[bool, str, float, float],
) -> DecisionRecord:  # fmt: skip
    actions, baseline = request.actions, request.baseline
    return DecisionRecord(
        number, time.time(), task, engine.model.version, action, baseline, *verdict,
        request.low, request.high, request.std, 1.0, None, None, None, len(actions), digest,
        actions[baseline].tobytes(), None if action == baseline else features.tobytes(),
        actions[Memory.sampled(number, len(actions))].tobytes() if Memory.samples(number) else None,
        actions.tobytes() if engine.settings.keep_actions else None, key,
    )  # fmt: skip

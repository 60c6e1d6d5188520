"""Many rewards at once: checked together, judged in order, written in one transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence

from banister.online.engine import ACCEPTED, Engine, same_reward
from banister.online.following import repeated
from banister.online.ledger import Played
from banister.online.record import RewardRecord


@repeated
def reward_batch(
    engine: Engine, numbers: Sequence[int], values: Sequence[float], keys: Sequence[str | None]
) -> list[str]:
    """What became of each; all are written, or none and nothing has changed."""
    accepted: dict[int, tuple[Played, RewardRecord]] = {}
    with engine.call_alone:
        known, now = engine.known(numbers), time.time()
        outcomes = [
            _outcome(engine, accepted, known[number], RewardRecord(number, now, value, key))
            for number, value, key in zip(numbers, values, keys, strict=True)
        ]
        engine.store.ledger.add_rewards([record for _, record in accepted.values()])
        learned = [(number, played, record.value) for number, (played, record) in accepted.items()]
        engine.watch_rewards(learned)
    engine.store.learn_many(learned)
    if engine.account is not None:
        for _, record in accepted.values():
            engine.post(record)
    engine.count_alarms()
    return outcomes


def _outcome(
    engine: Engine, accepted: dict[int, tuple[Played, RewardRecord]], played: Played, record: RewardRecord
) -> str:
    """What becomes of one reward, the ones before it in the batch included; a refusal is written."""
    first = accepted.get(record.id)
    if first is not None:
        played = first[0]._replace(reward=first[1].value, key=first[1].key)
    if record.key is not None and played.key == record.key:
        return same_reward(played, record.value)
    why = engine.refusal(played, record.time)
    if why is not None:
        engine.refuse(record.id, record.time, record.value, why)
        return why
    accepted[record.id] = played, record
    return ACCEPTED

"""What the ledger keeps: one record a happening, and the hash that chains each to all before it.

A record is built once. The same object is judged, hashed, written, remembered, replayed and exported. Arrays
are kept as the bytes of float64, so that what is hashed is what is written.
"""

from __future__ import annotations

import math
import struct
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

import numpy as np

from banister.data import Float

MIXTURE = -1  # in place of an action's index
HASH_BYTES = 32  # 256 bits: nobody finds two histories with one head


_LENGTHS = [struct.Struct(f"<{n}q") for n in range(10)]


def _content(kind: bytes, numbers: bytes, *parts: bytes | None) -> bytes:
    """What is hashed of a record: the kind, and the fields with their lengths, so that none can move."""
    lengths = _LENGTHS[len(parts)].pack(*[-1 if p is None else len(p) for p in parts])
    return b"".join([kind, numbers, lengths, *filter(None, parts)])


def leaf(record: Record) -> bytes:
    """One record's hash, which the chain's next head is made of."""
    return blake2b(record.content(), digest_size=HASH_BYTES).digest()


def chained(head: bytes, content: bytes) -> bytes:
    """The next head: everything before, and one record's hash. SHA-256, which databases can compute too."""
    return sha256(head + blake2b(content, digest_size=HASH_BYTES).digest()).digest()


def chained_at_first(head: bytes, content: bytes) -> bytes:
    """The next head by the rule of the first chains, which stores of that time begin with."""
    return blake2b(head + content, digest_size=HASH_BYTES).digest()


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


class TaskRecord(NamedTuple):
    """A task that was seen for the first time, and the code it goes by."""

    code: int
    label: str

    def content(self) -> bytes:
        """What is hashed of it."""
        return _content(b"task", struct.pack("<q", self.code), _text(self.label))


# A decision's numbers, then the lengths of what follows. One NaN and one zero: databases keep NaN as NULL and
# may drop the sign of zero.
DECISION = struct.Struct("<qdqqqqqddddddqq9q")
_NAN = math.nan


class DecisionRecord(NamedTuple):
    """A decision: the request, what was played, and why it was allowed.

    Attributes:
        id: given by the ledger, counting from 1.
        time: seconds since 1970.
        task: its code.
        version: of the model that decided.
        action, baseline: indices; −1 for a mixture.
        certified, reason, bound, floor: the judgement; NaN where there is none.
        low, high, std: the baseline reward as it was given; NaN where unknown.
        probability: with which `action` was played; 1 for a decision without chance.
        probabilities: of all offered actions, float64; None without chance.
        promise: which promise the decision was made under; None for a certificate's own.
        limited_by: what kept the probability from being larger; None if nothing did.
        n_actions, digest: how many were offered, and a fingerprint of them.
        baseline_features: float64 of the baseline's action.
        features: of what was played; None for the baseline's.
        offered: one offered action, of decisions that give one to the sample.
        actions: all of them, where whole sets are kept.
        key: the caller's name for the call, by which a repetition is known.
    """

    id: int
    time: float
    task: int
    version: int
    action: int
    baseline: int
    certified: bool
    reason: str
    bound: float
    floor: float
    low: float
    high: float
    std: float
    probability: float
    probabilities: bytes | None
    promise: str | None
    limited_by: str | None
    n_actions: int
    digest: int
    baseline_features: bytes
    features: bytes | None
    offered: bytes | None
    actions: bytes | None
    key: str | None

    @property
    def baseline_vector(self) -> Float:
        """(d,) the baseline's features."""
        return np.frombuffer(self.baseline_features)

    @property
    def played(self) -> Float:
        """(d,) features of what was played."""
        return np.frombuffer(self.baseline_features if self.features is None else self.features)

    @property
    def moved(self) -> bool:
        """Whether it left the baseline for another listed action."""
        return self.action not in (self.baseline, MIXTURE)

    @property
    def odds(self) -> Float | None:
        """(K,) the probabilities of a draw."""
        return None if self.probabilities is None else np.frombuffer(self.probabilities)

    def content(self) -> bytes:
        """What is hashed of it."""
        (
            number, when, task, version, action, baseline, certified, reason, bound, floor, low, high, std,
            probability, probabilities, promise, limited_by, n_actions, digest, *rows, key,
        ) = self  # fmt: skip
        named = (
            reason.encode("utf-8", "surrogatepass"), probabilities,
            None if promise is None else _text(promise), None if limited_by is None else _text(limited_by),
            *rows, None if key is None else _text(key),
        )  # fmt: skip
        numbers = DECISION.pack(
            number, when, task, version, action, baseline, certified,
            bound + 0.0 if bound == bound else _NAN, floor + 0.0 if floor == floor else _NAN,
            low + 0.0 if low == low else _NAN, high + 0.0 if high == high else _NAN, std + 0.0,
            probability, n_actions, digest, *[-1 if part is None else len(part) for part in named],
        )  # fmt: skip
        return b"".join([b"decision", numbers, *filter(None, named)])


REWARD = struct.Struct("<qddq")  # its numbers, then the length of what follows
_REFUSAL = struct.Struct("<qdd")


class RewardRecord(NamedTuple):
    """An accepted reward of a decision."""

    id: int
    time: float
    value: float
    key: str | None

    def content(self) -> bytes:
        """What is hashed of it."""
        key = b"" if self.key is None else _text(self.key)
        size = -1 if self.key is None else len(key)
        return b"".join((b"reward", REWARD.pack(self.id, self.time, self.value + 0.0, size), key))


class RefusalRecord(NamedTuple):
    """A reward that was refused, and why: "duplicate", "expired" or "retracted"."""

    decision: int
    time: float
    value: float
    why: str

    def content(self) -> bytes:
        """What is hashed of it."""
        numbers = _REFUSAL.pack(self.decision, self.time, self.value + 0.0)
        return _content(b"refusal", numbers, _text(self.why))


class RetractionRecord(NamedTuple):
    """A reward that was taken back: it stays in the ledger and is left out of later fits."""

    id: int
    time: float
    why: str

    def content(self) -> bytes:
        """What is hashed of it."""
        return _content(b"retraction", struct.pack("<qd", self.id, self.time), _text(self.why))


class AlarmRecord(NamedTuple):
    """A drift: whose, under which model, from which decision rows count, after which decision it rang."""

    seq: int
    time: float
    task: int
    version: int
    since: int
    after: int
    statistic: float

    def content(self) -> bytes:
        """What is hashed of it."""
        return _content(b"alarm", struct.pack("<qdqqqqd", *self[:6], self.statistic + 0.0))


class LogRecord(NamedTuple):
    """A block of rows of the policy in place; `call` is a fingerprint of the whole log it came with."""

    seq: int
    time: float
    task: bytes
    features: bytes
    reward: bytes
    baseline: bytes
    baseline_reward: bytes
    call: bytes

    def content(self) -> bytes:
        """What is hashed of it."""
        return _content(b"log", struct.pack("<qd", self.seq, self.time), *self[2:])


class ModelRecord(NamedTuple):
    """A model version: how its bytes are to be read, their number and hash, and what the ledger held then.

    Attributes:
        version: counts from 1.
        time: when it began to serve.
        format: of its bytes; another number than this version's own means that they cannot be read here.
        size: of its bytes.
        digest: their hash; None for a model whose bytes were dropped before digests were kept.
        decisions, rewards, drifts: how many the ledger held.
    """

    version: int
    time: float
    format: int
    size: int
    digest: bytes | None
    decisions: int
    rewards: int
    drifts: int

    def content(self) -> bytes:
        """What is hashed of it."""
        numbers = struct.pack("<qdqqqqq", *self[:4], *self[5:])
        return _content(b"model", numbers, self.digest)


def digest_of(data: bytes) -> bytes:
    """The hash of a model's bytes, or of a log."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


Record = (
    TaskRecord | DecisionRecord | RewardRecord | RefusalRecord | RetractionRecord | AlarmRecord | LogRecord
    | ModelRecord
)  # fmt: skip
Entry = tuple[int, bytes, Any]  # position in the chain, head after it, record

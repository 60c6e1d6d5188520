"""Deliberate faults in what a `SafeBandit` writes, keeps and puts back: each must make a test fail.

    python benchmarks/mutants_online.py           # all of them; exit code 1 if one survives
    python benchmarks/mutants_online.py key guard # those whose path or name contains one of these words

Run by `mutation.py`, compiled: no kernel is changed, so that one compilation serves all.
"""

from __future__ import annotations

from mutation import main, mutants

_CALLS, _DRIFT, _AUDIT = "test_online_calls.py", "test_online_drift.py", "test_online_audit.py"
_ALL = "test_online.py"
_BAD = ["test_online_bad_input.py::test_altered_ledgers"]
_FILES = [
    "test_online_bad_input.py::test_a_ledger_without_its_model_restores_it",
    "test_online_bad_input.py::test_a_model_file_that_is_not_the_ledgers",
]

_READER = ["test_online_bad_input.py::test_a_reader_does_not_serve_a_model_that_was_altered"]

TESTS = {
    "online/engine.py": [_CALLS, _DRIFT, _ALL, *_BAD, "test_online_versions.py"],
    "online/store.py": ["test_online_parts.py", _CALLS, _DRIFT, _ALL, "test_online_shared.py"],
    "online/refitter.py": [_CALLS, _DRIFT, _AUDIT, _ALL, *_FILES],
    "online/batch.py": [_DRIFT, _ALL, "test_online_batch_keys.py"],
    "online/batch_rewards.py": [_ALL, "test_online_batch_keys.py"],
    "online/rebuild.py": [_CALLS, _DRIFT, *_BAD],
    "online/audit.py": [_AUDIT, _DRIFT],
    "online/chain.py": ["test_online_chain.py", "test_online_versions.py"],
    "online/guard.py": ["test_online_guard.py"],
    "online/files.py": _FILES,
    "online/tallies.py": ["test_online_parts.py"],
    "online/sqlite/ledger.py": [_CALLS, "test_online_guard.py"],
    "online/sqlite/reading.py": [_CALLS],
    "online/raw.py": ["test_online_raw.py"],
    "online/waking.py": [*_READER, "test_online_versions.py", *_FILES, *_BAD],
    "online/sqlite/schema.py": [_CALLS],
    "serve/desk.py": ["test_serve.py"],
    # These need BANISTER_TEST_POSTGRES; without it their faults survive.
    "online/following.py": ["test_online_shared.py"],
    "online/postgres/ledger.py": ["test_online_shared.py"],
    "online/postgres/statements.py": ["test_online_shared.py", "test_online_chain.py"],
    "online/postgres/connecting.py": ["test_online_shared.py"],
}

MUTANTS = [
    *mutants(
        "online/engine.py",
        ("alarm-unwritten", "ledger.add_alarm(record)", "pass", "an alarm is not in the ledger"),
        ("alarm-uncounted", "self.store.count_alarm(alarm)", "pass", "memory does not follow an alarm"),
        ("alarm-twice", "if alarm.task not in self._alarmed:", "if True:", "a replayed alarm is written again"),
        ("key-ignored", "again = None if key is None else store.ledger.find_key(key)", "again = None",
         "a decision is made twice"),
        ("key-other", "if not same or record.digest != digest:", "if False:", "another request gets an old answer"),
        ("reward-key", "if key is not None and played.key == key:", "if False:", "a retry is a duplicate"),
        ("reward-value", "if played.reward != value:", "if False:", "a retry with another reward is accepted"),
        ("reward-twice", "if played.reward is not None:\n            return DUPLICATE", "", "a reward counts twice"),
        ("expire", "return EXPIRED if limit is not None and now - played.time > limit else None", "return None",
         "late rewards are taken in"),
        ("retract-open", "if played.retracted:\n            return RETRACTED", "", "a retracted decision is rewarded"),
        ("retract-kept", "self.store.memory.retract(number,", "(lambda *_: None)(number,", "a retracted reward is learned from"),
        ("retract-unwritten", "self.store.ledger.add_retraction(", "str(", "a retraction does not survive"),
        ("refusal-unwritten", "self.store.ledger.add_refusal(", "str(", "a refusal is forgotten"),
        ("unwatched", "if not self.settings.drift_guard:\n            return\n        self._unseen",
         "if True:\n            return\n        self._unseen", "rewards are not watched"),
        ("watched-anyway", "if not self.settings.drift_guard:\n            return\n        self._unseen", "self._unseen",
         "the guard cannot be left out"),
        ("unseen", "self.learner.watch.put_back(state)", "pass", "a reward that failed was seen"),
        ("failed-gates", "self.learner.put_back(learner)", "pass", "a decision that failed shuts a gate"),
        ("failed-tasks", "self.store.drop_tasks(known)", "pass", "a task that failed is known"),
        ("failed-alarm", "self.store.drop_tasks(known)\n        self._rung.clear()", "self.store.drop_tasks(known)",
         "an alarm that failed counts with the next"),
        ("swap-forgets", "self.learner.put_back(state)", "pass", "a swap that failed forgets rows"),
        ("drift-reopened", "events += [(alarm.after, 1, alarm.task) for alarm in alarms]", "pass",
         "an alarm during a fit does not hold for its model"),
        ("disagreed-reopened", "if is_alarm or gates.is_open(task):", "if is_alarm:", "a contradicted task opens again"),
        ("order-reopened", "in sorted(events):", "in sorted(events, key=lambda e: -e[1]):", "gates shut in another order"),
        ("watch-reopened", "skipped = self.model.marks.rewards", "skipped = 1 << 62",
         "rewards from before a store was closed are never compared"),
        ("watch-tail", "yield from zip(task, X, y, number, strict=True)\n            return", "return",
         "rewards during a fit are never compared"),
    ),
    *mutants(
        "online/raw.py",
        ("afterwards", "        if name in features.context.slices:", "        if False:", "a bandit learns from what it cannot know"),
    ),
    *mutants(
        "online/waking.py",
        ("outdated", "if last.format != FORMAT:", "if False:", "bytes of another format are read"),
        ("altered-model", "if digest_of(data) != last.digest:", "if False:", "an altered model serves"),
    ),
    *mutants(
        "online/store.py",
        ("reward-two", "self.rewards += len(rewards)", "self.rewards += 2 * len(rewards)", "a reward counts twice"),
        ("row-two", "self._learned += rewards", "self._learned += [*rewards, *rewards]", "a reward is learned twice"),
        ("never-taken-in", "self._take_in()\n        return self._memory", "return self._memory",
         "a fit does not see what waits"),
        ("block-first", "self._take_in()\n        self._add_plays(block)", "self._add_plays(block)",
         "rows of others come before what waits"),
        ("decisions-first", "self._take_in()\n        self._take_in_decisions(block)", "self._take_in_decisions(block)",
         "decisions of others come before what waits"),
        ("alarm-first", "memory, tallies = self.memory, self.tallies", "memory, tallies = self._memory, self._tallies",
         "a drift forgets less than came before it"),
        ("logs-twice", "if call in {block.call for block in self.ledger.logs()}:", "if False:", "a log counts twice"),
        ("label-lost", "known = np.array(block.low) == np.array(block.high)", "known = np.array(block.low) > np.array(block.high)", "claimed rewards are not learned from"),
        ("offer-lost", "if row is not None]", "if False]", "nothing is known of what is offered"),
        ("tally-kept", "tallies.start_anew(alarm.task)", "pass", "gains from before a drift are reported"),
        ("drop-labels", "del self.labels[n:]", "pass", "a task that failed keeps its place"),
        ("mixtures", "self.mixtures += record.action < 0", "pass", "more mixtures are played than were allowed"),
    ),
    *mutants(
        "online/refitter.py",
        ("swap-before", "engine.serve_again(before)", "pass", "a model serves that was not written"),
        ("swap-uncommitted", "with ledger.transaction(alone=True):\n", "if True:\n", "a swap is half written"),
        ("unrecorded", "ledger.add_model(", "str(", "a model serves that the ledger does not know"),
        ("alarms-uncounted", "engine.count_alarms()", "pass", "alarms of a swap are not in memory"),
        ("forgotten", "if not engine.settings.keep_models:", "if True:", "models to be kept are dropped"),
        ("kept-all", "ledger.forget_model(last.version)", "pass", "models to be dropped are kept"),
        ("attempt", 'ledger.keep("attempt", str(self._attempt))', "pass", "a reopened store fits at once"),
        ("file", "write_atomically(engine.path, data)", "pass", "the model file is an old one"),
        ("release", "finally:\n            self._fitting.release()", "finally:\n            pass",
         "one fit is the last"),
    ),
    *mutants(
        "online/batch.py",
        ("after", "records[-1].id)", "record.id)", "an alarm is dated before requests that it did not stop"),
        ("unnoted", "if record.reason == Reason.DISAGREES:", "if False:", "contradictions of a batch are not counted"),
        ("alarms", "engine.count_alarms()", "pass", "alarms of a batch are not in memory"),
    ),
    *mutants(
        "online/batch.py",
        ("keys", "found = engine.store.ledger.find_keys(list(places)) if places else {}", "found = {}",
         "a batch that is sent again cannot be decided"),
        ("keys-twice", "if n > 1 and key is not None", "if False", "two requests of a batch share a key"),
    ),
    *mutants(
        "online/batch_rewards.py",
        ("batch-twice", "why = DUPLICATE if first is not None else", "why =", "a batch rewards a decision twice"),
        ("batch-key", "if record.key is not None and played.key == record.key:", "if False:",
         "a retry of a batch is a duplicate"),
    ),
    *mutants(
        "online/rebuild.py",
        ("retracted", "retract(store, store.ledger.retractions())", "pass",
         "a retracted reward counts again"),
        ("alarms", "        store.count_alarm(alarm)", "        pass", "drifts are forgotten"),
        ("strict", "broken(store.ledger) if strict else None", "None", "an altered ledger is served from"),
    ),
    *mutants(
        "online/audit.py",
        ("reason", "        if not same:\n", "        if False:\n", "another verdict passes"),
        ("bound", "elif certified and not (_near(bound, kept_bound, whole) and _near(floor, kept_floor, whole)):",
         "elif False:", "another bound passes"),
        ("rounding", "a == b if exact else abs(a - b)", "abs(a - b)", "whole action sets are compared loosely"),
        ("digest", "if digest(actions) != record.digest:", "if False:", "another action set passes"),
        ("drifts", "self.learner.gates.shut(self._alarms.pop(0).task)", "self._alarms.pop(0)",
         "what was played after a drift does not follow"),
        ("chain", "for problem in problems(ledger, receipts):", "for problem in ():", "the chain is not followed"),
        ("missing-model", "found.blame(f\"Model {version}: its bytes", "str(f\"Model {version}: its bytes",
         "an altered model passes"),
    ),
    *mutants(
        "online/chain.py",
        ("hash", "if head.hash != kept:", "if False:", "altered rows pass"),
        ("link", "if link != head.links + 1:", "if False:", "rows in another place pass"),
        ("receipt", "if receipt != head.receipt():", "if False:", "a rewritten ledger passes"),
        ("shorter", "yield from _shorter(waiting, head)", "pass", "a shorter ledger passes"),
        ("first-rule", "chained_at_first if link <= first else chained", "chained", "an older store is refused"),
    ),
    *mutants(
        "online/guard.py",
        ("fork", "if os.getpid() != self._pid:", "if False:", "a child writes too"),
        ("lock", "[_File(self._lock, self._own, \"so another process may be writing\")]", "[]",
         "a lost lock is not noticed"),
        ("file", "if now.st_ino != file.number or now.st_dev != file.device or now.st_size < file.size:",
         "if now.st_size < file.size:", "a replaced file is written to"),
        ("gone", "raise file.lost(None) from None", "continue", "a file that is gone is written to"),
        ("cut", " or now.st_size < file.size:", ":", "a file that was cut is written to"),
        ("child", "for guard in _GUARDS:", "for guard in ():", "a child keeps the lock"),
    ),
    *mutants(
        "online/files.py",
        ("stranger", "if digest not in {m.digest for m in models}:", "if False:", "a stranger's model file is kept"),
    ),
    *mutants(
        "online/tallies.py",
        ("anew", "self.moved.view[tasks] = 0", "pass", "decisions from before a drift count"),
        ("margin", "np.fmin.at(self.margin.view, left, margin[moved])", "self.margin.view[left] = margin[moved]",
         "the last margin passes for the worst"),
    ),
    *mutants(
        "online/sqlite/reading.py",
        ("still-fresh", "self._fresh.take(number)  # a reward of it may be written now", "pass",
         "a reward of a batch may come again"),
    ),
    *mutants(
        "online/sqlite/ledger.py",
        ("unguarded", "self._guard.check()\n        self.open", "pass\n        self.open", "files are not looked at"),
        ("fall-back", "self._writer.fall_back()", "pass", "the head counts what was not written"),
        ("own", "if self.open and self._only is not None:", "if False:", "a transaction does not see its own record"),
        ("uncommitted", "if self._begun:\n                self._db.execute(\"COMMIT\")\n            elif", "if",
         "a call of several records is never committed"),
        ("not-one", "            self._db.execute(\"BEGIN IMMEDIATE\")\n            self._begun = True",
         "            self._begun = True", "several records are written one by one"),
    ),
    *mutants(
        "online/sqlite/schema.py",
        ("head", "links = NEW.link, ", "", "the head is left behind"),
        ("count", ", {table} = {table} + 1", "", "the head does not count"),
    ),
    *mutants(
        "online/following.py",
        (
            "others-wait",
            "head.links - store.known.links >= LAG",
            "head.links < 0",
            "others' rows wait for ever",
        ),
        ("others-later", "time.monotonic() - self._last > SOON", "False", "a few rows of others wait for ever"),
        ("shown-twice", "number not in store.seen for", "True for", "an own reward is shown to the watch twice"),
        ("late-unseen", "self._engine.watch_block(rows)", "pass", "others' rewards are not watched"),
        ("alarm-order", "_first_after(block, waiting[-1].after, start)", "None", "an alarm forgets what came after it"),
        (
            "others-open",
            "engine.shut_as_others_did(news.alarms, news.contradicted)",
            "pass",
            "a gate that another process shut stays open",
        ),
        ("others-model", "engine.use_last()", "pass", "another process's model does not serve"),
        ("cut-elsewhere", "ledger.check_begins_with(known)", "pass", "another history is continued"),
        (
            "once",
            "        except Overtaken:\n            return method(*args, **kwargs)",
            "        except Overtaken:\n            raise",
            "a call that was overtaken fails",
        ),
    ),
    *mutants(
        "online/postgres/ledger.py",
        (
            "fork",
            "if os.getpid() != self._pid:\n            raise",
            "if False:\n            raise",
            "a forked child writes",
        ),
        ("shorter", "if links < self.head.links or", "if False and", "a cut ledger is served from"),
        (
            "again-together",
            "self._alone_next = True\n        return",
            "return",
            "a call is overtaken for ever",
        ),
        ("unsynced", 'if self._durability == "full" and self.own:', "if False:", "full durability is not"),
    ),
    *mutants(
        "serve/desk.py",
        ("room", "if size > _NUMBERS:", "if False:", "a few bytes of contexts take any memory"),
        (
            "whose",
            'raise type(reason)(f"request {i}: {reason}") from None',
            "raise",
            "a context at fault is not named",
        ),
        ("unnamed", "raw.named(d, names[i]) if i in names else d", "d", "arms of a batch have no names"),
    ),
    *mutants(
        "online/postgres/statements.py",
        (
            "epoch",
            "WHERE epoch = %b::bigint AND",
            "WHERE %b::bigint IS NOT NULL AND",
            "a decision is made without knowing of a gate that was shut",
        ),
        ("longer", "AND links >= %b::bigint", "AND %b::bigint IS NOT NULL", "a cut ledger is added to"),
        (
            "stale",
            "ids < %b::bigint + {_STALE}",
            "%b::bigint IS NOT NULL",
            "an old id stands far behind its place",
        ),
        (
            "served-over",
            "WHERE NOT EXISTS (SELECT 1 FROM models WHERE version = %b)",
            "WHERE %b IS NOT NULL",
            "a model that serves is written over",
        ),
    ),
    *mutants(
        "online/postgres/connecting.py",
        ("foreign", "if found != expected():", "if False:", "a foreign trigger runs"),
    ),
]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main(MUTANTS, TESTS))

"""`PostgresLedger`: the ledger in a PostgreSQL database, for several processes at once.

There are two kinds of transaction. One that adds a single decision, reward, refusal or retraction is a single
statement: the database takes the next link of the chain while it holds the head. It is refused, as
`Overtaken`, if another process has changed what may be decided since this one last looked (the `epoch`).
All others hold the head from their beginning to their end (`alone`), so that what they know is exact.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from banister.errors import InputError, StoreError
from banister.online.adding import Adder
from banister.online.fresh import Fresh
from banister.online.head import Head
from banister.online.ledger import Overtaken, Played, is_urgent
from banister.online.postgres import statements
from banister.online.postgres.connecting import connect, prepare, unusable
from banister.online.postgres.place import PostgresPlace
from banister.online.postgres.reading import Reader
from banister.online.record import (
    DecisionRecord,
    Record,
    RefusalRecord,
    RetractionRecord,
    RewardRecord,
    leaf,
)
from banister.online.transaction import Transaction

_SINGLE = (DecisionRecord, RewardRecord, RefusalRecord, RetractionRecord)  # may be added without the head
_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_REFIT = "SELECT pg_{}(hashtextextended('banister refit ' || %b::text, 0))"


class PostgresLedger(Reader, Adder):
    """Tables in a schema of their own; see `Ledger` for what each operation does."""

    shared = True

    def __init__(self, place: PostgresPlace, *, create: bool = True) -> None:
        self._place, self._pid, self._durability = place, os.getpid(), "normal"
        self.open = self.alone = self._alone_next = False
        self._mine: int | None = None  # an id that was set aside for this process, in this epoch
        self._fresh = Fresh()
        self._crowded = False  # whether others have decided since this process opened the store
        db = connect(place)
        try:
            with self._named(place)._readable():
                prepare(db, place, create=create)
            super().__init__(db, str(place))
        except BaseException:
            db.close()
            raise
        self._decided = self.last_id  # as it was after the last decision here

    def _named(self, place: PostgresPlace) -> PostgresLedger:
        self.where = str(place)
        return self

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.where} was opened by process {self._pid} and is used in its child {os.getpid()}; "
                "open the store after the fork: each process opens its own."
            )
        if self._db.closed:
            self._connect_again()

    def _connect_again(self) -> None:
        """After a lost connection: the ledger must still begin with what this process knows of it."""
        known, self._mine, self._alone_next = self.head, None, True
        self._fresh.clear()
        with self._readable():
            self._db = connect(self._place)
            self._cursor = self._db.cursor(binary=True)
            prepare(self._db, self._place, create=False)
        self.check_begins_with(known)

    def check_begins_with(self, known: Head) -> None:
        if known.links and self._hash_at(known.links) != known.hash:
            raise self._cut()

    def _check_longer(self, found: bytes, links: int) -> None:
        """The ledger may only have grown since this process last looked."""
        if links < self.head.links or (links == self.head.links and found != self.head.hash):
            raise self._cut()

    def _cut(self) -> StoreError:
        return StoreError(
            f"{self.where} no longer begins with the {self.head.links} records that this process knows: it "
            "was altered, restored from an older copy, or the server lost its last moments. Nothing more is "
            "taken in; look into it, and load the store again."
        )

    def _hash_at(self, link: int) -> bytes | None:
        tables = " UNION ALL ".join(f"SELECT head FROM {t} WHERE link = %b" for t in statements.TABLES)
        rows = self._rows(tables, *[link] * len(statements.TABLES))
        return rows[0][0] if rows else None

    def set_durability(self, durability: str) -> None:
        self._durability = durability

    def transaction(self, *, alone: bool = False) -> Transaction:
        return Transaction(self, alone)

    def begin(self, alone: bool = False) -> None:
        self.check()
        self.alone, self._alone_next = alone or self._alone_next, False
        self.own = 0
        self._added: list[tuple[str, tuple[Any, ...]]] = []
        self._sent = 0
        self._single: Record | None = None
        self._before = self.head.state(), self.last_id, self.epoch
        if self.alone:
            self._lock()
        self.open = True

    def _lock(self) -> None:
        try:
            with self._readable(), self._db.pipeline():
                self._cursor.execute("BEGIN")
                self._cursor.execute(statements.LOCK, prepare=True)
                row = self._cursor.fetchone()
        except BaseException:
            self._give_up()
            raise
        try:
            self._check_longer(*row[:2])
        except StoreError:
            self._give_up()
            raise
        self._take(row)
        self._crowded |= self.last_id > self._decided
        self._mine = None
        self._before = self.head.state(), self.last_id, self.epoch

    def commit(self) -> None:
        import psycopg

        try:
            if self.alone:
                self._commit_alone()
            elif self._single is not None:
                self._commit_single(self._single)
            self._wait_for_disk()
        except psycopg.errors.UniqueViolation as reason:
            alone = self.alone
            self.roll_back()
            if alone:
                raise unusable(self.where, reason) from None
            raise self._overtaken() from None
        except (psycopg.Error, UnicodeError, OverflowError) as reason:
            self.roll_back()
            raise unusable(self.where, reason) from None
        except Overtaken:
            self.roll_back()
            raise
        self.open = False

    def _wait_for_disk(self) -> None:
        """Until what was committed is on disk, with the head free for others: one sync serves them all."""
        if self._durability == "full" and self.own:
            self._cursor.execute(statements.SYNC, prepare=True)

    def _commit_alone(self) -> None:
        with self._db.pipeline():
            self._send()
            if self.head.state() != self._before[0]:
                if self._crowded:
                    self.last_id += 1
                    self._mine = self.last_id
                self._decided = self.last_id
                values = *self.head.state(), self.last_id, self.epoch
                self._cursor.execute(statements.SET_HEAD, values, prepare=True)
            self._cursor.execute("COMMIT")

    def _send(self) -> None:
        for statement, values in self._added[self._sent :]:
            self._cursor.execute(statement, values, prepare=True)
        self._sent = len(self._added)

    def _commit_single(self, record: Record) -> None:
        values: tuple[Any, ...] = (leaf(record), int(is_urgent(record, self.head)))
        guard: tuple[Any, ...] = (self.epoch, self.head.links, self.head.hash)
        if isinstance(record, DecisionRecord):
            values += (record.id, int(self._crowded))
            guard += (record.id, record.id == self._mine, record.id)
        found = self._cursor.execute(
            statements.LINK[type(record)], (*values, *guard, *record), prepare=True
        ).fetchone()
        if found is None:
            raise self._overtaken()
        self._take(found)
        if isinstance(record, DecisionRecord):
            self._fresh.add(record)
            self._mine = self.last_id if self._crowded else None
            self._crowded |= self.last_id > max(self._decided, record.id)
            self._decided = self.last_id

    def find(self, number: int) -> Played | None:
        # Should another process have rewarded it meanwhile, the database refuses a second one, and the call
        # is made again, alone, with a look.
        fresh = self._fresh.take(number) if self.open and not self.alone else None
        return super().find(number) if fresh is None else fresh

    def _overtaken(self) -> Overtaken:
        """The next try holds the head, so that there is no third."""
        self._alone_next = True
        return Overtaken()

    def roll_back(self, failure: BaseException | None = None) -> None:
        state, self.last_id, self.epoch = self._before
        self.head, self.open = Head(*state), False
        if self.alone:
            self._give_up()

    def _give_up(self) -> None:
        with suppress(Exception):
            self._db.execute("ROLLBACK")

    def _show_own(self) -> None:
        if self.open and self.alone and self._sent < len(self._added):
            self._send()

    def next_id(self) -> int:
        return self.last_id + 1 if self.alone or self._mine is None else self._mine

    def _add(self, record: Record) -> None:
        assert self.open, "records are added within a transaction"
        self.own += 1
        if self.alone:
            self.epoch += is_urgent(record, self.head)
            self.head.add(record)
            if isinstance(record, DecisionRecord):
                self.last_id = max(self.last_id, record.id)
            values = *record, self.head.links, self.head.hash
            self._added.append((statements.INSERT[type(record)], values))
        elif self._single is None and isinstance(record, _SINGLE):
            self._single = record
        else:
            raise self._overtaken()

    def add_part(self, version: int, part: int, data: bytes) -> None:
        self._do(statements.PART, version, part, data, version)

    def forget_model(self, version: int) -> None:
        self._do("DELETE FROM model_parts WHERE version = %b", version)

    def keep(self, key: str, value: str) -> None:
        self._do(statements.KEEP, key, value)

    def _do(self, statement: str, *values: Any) -> None:
        """A change that is no record."""
        with self.transaction(alone=True):
            if not self.alone:
                raise self._overtaken()
            self._added.append((statement, values))

    def look_still(self) -> None:
        """Begin to read one moment."""
        self.check()
        with self._readable():
            self._db.execute(_ONE_MOMENT)
        self.read_head()

    def look_on(self) -> None:
        """End it."""
        self._give_up()

    def start_refit(self) -> bool:
        self.check()
        return bool(self._rows(_REFIT.format("try_advisory_lock"), self._place.store)[0][0])

    def end_refit(self) -> None:
        if not self._db.closed:
            self._rows(_REFIT.format("advisory_unlock"), self._place.store)

    def still(self) -> _Still:
        return _Still(self)

    def snapshot(self) -> PostgresLedger:
        return self.read_only(self._place)

    @classmethod
    def read_only(cls, place: PostgresPlace) -> PostgresLedger:
        """A view of a store that other processes may be serving from."""
        view = object.__new__(cls)
        view._place, view._pid, view.shared, view.open = place, os.getpid(), False, False
        db = connect(place, read_only=True)
        try:
            with view._named(place)._readable():
                prepare(db, place, create=False)
                db.execute(_ONE_MOMENT)
            Reader.__init__(view, db, str(place))
        except BaseException:
            db.close()
            raise
        return view

    def save(self, path: Path) -> None:
        raise InputError(
            f"{self.where} is saved to another URL (bandit.save('postgresql://...?store=copy')) or with "
            f"pg_dump, not to the file {str(path)!r}."
        )

    def close(self) -> None:
        if os.getpid() == self._pid:
            super().close()


class _Still:
    """Reads within it see one moment, without a lock."""

    def __init__(self, ledger: PostgresLedger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._ledger.look_still()

    def __exit__(self, *_: object) -> None:
        self._ledger.look_on()

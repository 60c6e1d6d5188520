"""What a store is opened with: its settings, and the model that served last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from banister.errors import ModelFileError
from banister.online import files
from banister.online.ledger import Ledger
from banister.online.model import FORMAT, Model
from banister.online.record import ModelRecord, digest_of
from banister.online.settings import Settings


def settled(ledger: Ledger, given: Settings | None, *, read_only: bool) -> Settings:
    """The store's own settings, with those that may change taken from what was given."""
    text = ledger.kept("settings")
    if text is None:
        if given is None:
            raise ModelFileError(f"{ledger.where} holds no settings; it was never opened by a SafeBandit.")
        settings = given
    else:
        stored = Settings.from_dict(_json(text, ledger.where), ledger.where)
        settings = stored if given is None else given.over(stored, ledger.where)
    if not read_only:
        ledger.set_durability(settings.durability)
        if text != (new := json.dumps(settings.to_dict())):
            ledger.keep("settings", new)
    return settings


def last_model(ledger: Ledger, path: Path | None, settings: Settings, dim: int) -> tuple[Model, bool]:
    """The model that serves, and whether its bytes are of an older format: then a shut one is in its place.

    Args:
        ledger: it is kept there.
        path: of the model file, which is brought up to date; None for none.
        settings: it must have been made with these.
        dim: of a model in its place.
    """
    models = ledger.models()
    if not models:
        if path is not None:
            files.is_current(path, models)  # an error if there is a file all the same
        return Model.none(dim), False
    last = models[-1]
    data = _bytes_of(ledger, last)
    if path is not None and not files.is_current(path, models):
        files.write_atomically(path, data)
    if last.format != FORMAT:
        return Model.none(dim, last.version), True
    model, meta = Model.from_bytes(data, f"{ledger.where}, model {last.version}")
    settings.check_same(Settings.from_dict(meta["settings"], ledger.where), ledger.where)
    return model, False


def _bytes_of(ledger: Ledger, last: ModelRecord) -> bytes:
    """A model's bytes as they were written; an error if this version cannot read such, or they are not."""
    if last.format > FORMAT:
        raise ModelFileError(
            f"{ledger.where} has a model of format {last.format}, this version of banister reads up to "
            f"{FORMAT}; install a later one: pip install -U banister."
        )
    data = ledger.model(last.version)
    if data is None:
        raise ModelFileError(f"{ledger.where} lacks the bytes of model {last.version}; restore a copy.")
    if digest_of(data) != last.digest:
        raise ModelFileError(f"{ledger.where}: model {last.version} was altered; restore a copy.")
    return data


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise ModelFileError(f"{where} has settings that are not JSON ({reason}); restore a copy.") from None

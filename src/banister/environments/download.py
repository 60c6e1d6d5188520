"""Fetch a rating file from its publisher, check it, and keep it in the data folder."""

from __future__ import annotations

import http.client
import io
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from banister.environments.ratings import parse_ratings, read_ratings
from banister.environments.sources import Source, source_named
from banister.environments.storage import data_folders, write_atomically
from banister.errors import DataFileError

Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 16
_LIMIT = 64 << 20  # the archives hold about 5 MB; an answer this large is something else


def fetch(
    data: str | Source,
    *,
    folder: str | Path | None = None,
    url: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> Path:
    """Make sure that the rating file is in the data folder, and say where.

    A good copy that is there already is left alone, without using the network; one that is altered is
    replaced. Nothing is written unless what arrived is the file its publisher made. `data.licence` says what
    may be done with it.

    Args:
        data: `movielens-100k`, `movielens-latest-small`, or a `Source`.
        folder: the data folder; by default `BANISTER_DATA`, else the user's cache folder.
        url: another address of the same archive.
        progress: called with the bytes received so far and their total (None where it is not known).
        timeout: seconds without an answer after which to give up.
    """
    source = data if isinstance(data, Source) else source_named(data)
    root = data_folders()[0] if folder is None else Path(folder).expanduser()
    target = root / source.folder / source.filename
    if not _is_good(target, source):
        address = url or source.url
        content = _member(_download(address, source, target, progress, timeout), source, address)
        parse_ratings(content, source, f"{source.filename} from {address}")
        _write(target, content)
    return target


def _is_good(target: Path, source: Source) -> bool:
    if not target.is_file():
        return False
    try:
        read_ratings(target, source)
    except DataFileError:
        return False
    return True


def _download(url: str, source: Source, target: Path, progress: Progress | None, timeout: float) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return _receive(answer, progress)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as reason:
        cause = reason.reason if isinstance(reason, urllib.error.URLError) else reason
        raise DataFileError(
            f"{source.title} could not be fetched from {url}: {cause}. Without a network, get that address "
            f"on another machine and put its {source.folder}/{source.filename} at {target}."
        ) from reason


def _receive(answer: Any, progress: Progress | None) -> bytes:
    length = answer.headers.get("Content-Length")
    total = int(length) if length else None
    received = bytearray()
    while chunk := answer.read(_CHUNK):
        received += chunk
        if len(received) > _LIMIT:
            raise OSError(f"more than {_LIMIT:,} bytes came back, which is not the archive")
        if progress is not None:
            progress(len(received), total)
    if total is not None and len(received) != total:
        raise OSError(f"the connection ended after {len(received):,} of {total:,} bytes")
    return bytes(received)


def _member(archive: bytes, source: Source, url: str) -> bytes:
    """The rating file inside the archive; only its bytes are taken, no path of the archive is used."""
    wanted = f"{source.folder}/{source.filename}"
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            if packed.getinfo(wanted).file_size > _LIMIT:
                raise DataFileError(
                    f"{wanted} in {url} unpacks to more than {_LIMIT:,} bytes; it is not the original."
                )
            return packed.read(wanted)
    except KeyError:
        raise DataFileError(f"The archive at {url} holds no {wanted}; it is not {source.title}.") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as reason:
        raise DataFileError(
            f"What came back from {url} is not a readable zip archive ({reason}). A login page or proxy may "
            "have answered instead; open the address in a browser to see."
        ) from reason


def _write(target: Path, content: bytes) -> None:
    try:
        write_atomically(target, content)
    except DataFileError as reason:
        raise DataFileError(f"{reason} Set BANISTER_DATA to a folder you may write to.") from reason

"""Fetching a rating file: from archives made here, served from a file or from 127.0.0.1."""

from __future__ import annotations

import http.server
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from banister.environments.download import fetch
from banister.environments.ratings import find_ratings
from banister.environments.sources import SOURCES, Source
from banister.errors import DataFileError, SettingError
from test_ratings import TEXT, pinned

SOURCE = pinned(TEXT)


def archive(name: str = "ml-100k/u.data", text: str = TEXT) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("ml-100k/README", "read me")
        packed.writestr(name, text)
    return buffer.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    body = b""
    claimed = 0
    status = 200
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(self.status)
        self.send_header("Content-Length", str(self.claimed or len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: Any) -> None:
        """Keep the test output clean."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Handler]]]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Own(Handler):
        body = archive()

    serving = http.server.HTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}/ml-100k.zip", Own
    serving.shutdown()
    serving.server_close()
    thread.join()


def saved(tmp_path: Path, body: bytes) -> str:
    path = tmp_path / "archive.zip"
    path.write_bytes(body)
    return path.as_uri()


def leftovers(folder: Path) -> list[str]:
    return [str(p) for p in folder.rglob("*") if p.is_file()]


def test_fetch_over_http_reports_progress_and_keeps_the_file(
    tmp_path: Path, server: tuple[str, type[Handler]]
) -> None:
    url, handler = server
    steps: list[tuple[int, int | None]] = []
    path = fetch(SOURCE, folder=tmp_path, url=url, progress=lambda done, total: steps.append((done, total)))
    assert path == tmp_path / "ml-100k" / "u.data"
    assert path.read_text() == TEXT
    assert leftovers(tmp_path) == [str(path)]
    assert steps[-1] == (len(handler.body), len(handler.body))
    assert find_ratings(SOURCE, tmp_path) == path


def test_good_copy_needs_no_network_and_an_altered_one_is_replaced(
    tmp_path: Path, server: tuple[str, type[Handler]]
) -> None:
    url, handler = server
    path = fetch(SOURCE, folder=tmp_path, url=url)
    fetch(SOURCE, folder=tmp_path, url=url)
    assert handler.asked == 1
    path.write_text(TEXT + "9\t9\t1\t1\n")
    fetch(SOURCE, folder=tmp_path, url=url)
    assert handler.asked == 2
    assert path.read_text() == TEXT


def test_fetch_goes_to_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANISTER_DATA", str(tmp_path / "data"))
    path = fetch(SOURCE, url=saved(tmp_path, archive()))
    assert path == tmp_path / "data" / "ml-100k" / "u.data"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (archive(text=TEXT + "9\t9\t1\t1\n"), "1 extra"),
        (archive(text="user\titem\trating\ttime\n" + TEXT), "header line"),
        (archive(name="ml-100k/u1.base"), "holds no ml-100k/u.data"),
        (archive(name="../../ml-100k/u.data"), "holds no ml-100k/u.data"),
        (b"<html>please log in</html>", "not a readable zip archive"),
        (archive()[:-30], "not a readable zip archive"),
        (b"", "not a readable zip archive"),
    ],
)
def test_wrong_archive_is_refused_and_nothing_is_kept(tmp_path: Path, body: bytes, words: str) -> None:
    url = saved(tmp_path, body)
    with pytest.raises(DataFileError) as caught:
        fetch(SOURCE, folder=tmp_path / "data", url=url)
    assert words in str(caught.value)
    assert leftovers(tmp_path / "data") == []


def test_damaged_member_is_refused(tmp_path: Path) -> None:
    body = bytearray(archive())
    body[body.index(b"ml-100k/u.data") + 20] ^= 0xFF
    with pytest.raises(DataFileError, match="not a readable zip archive"):
        fetch(SOURCE, folder=tmp_path / "data", url=saved(tmp_path, bytes(body)))


def test_broken_connection_is_reported(tmp_path: Path, server: tuple[str, type[Handler]]) -> None:
    url, handler = server
    handler.claimed = len(handler.body) + 10
    with pytest.raises(DataFileError, match="could not be fetched"):
        fetch(SOURCE, folder=tmp_path, url=url)
    assert leftovers(tmp_path) == []


def test_refusal_of_the_server_is_reported(tmp_path: Path, server: tuple[str, type[Handler]]) -> None:
    url, handler = server
    handler.status = 404
    with pytest.raises(DataFileError, match="Not Found"):
        fetch(SOURCE, folder=tmp_path, url=url)


def test_without_network_the_error_says_where_to_put_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*args: Any, **kwargs: Any) -> None:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "create_connection", no_network)
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    with pytest.raises(DataFileError) as caught:
        fetch("movielens-100k", folder=tmp_path)
    message = str(caught.value)
    assert "Temporary failure in name resolution" in message
    assert f"put its ml-100k/u.data at {tmp_path / 'ml-100k' / 'u.data'}" in message


def test_folder_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(DataFileError, match="cannot be written"):
        fetch(SOURCE, folder=tmp_path / "data", url=saved(tmp_path, archive()))


def test_bad_address_and_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="could not be fetched"):
        fetch(SOURCE, folder=tmp_path, url="no address at all")
    with pytest.raises(SettingError, match="no data set called 'ml'"):
        fetch("ml", folder=tmp_path)


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda s: s.name)
def test_licence_says_what_is_allowed(source: Source) -> None:
    assert source.url.startswith("https://files.grouplens.org/")
    for words in ("research", "redistributed", "Harper", "Konstan", "2015"):
        assert words in source.licence

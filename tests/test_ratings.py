"""Rating files: what is read, what is refused and with which words, and where files are looked for."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banister.environments.ratings import find_ratings, parse_ratings, read_ratings
from banister.environments.sources import MOVIELENS_100K, MOVIELENS_LATEST_SMALL, Source, source_named
from banister.errors import DataFileError, SettingError

LINES = ["1\t10\t5\t881250949", "1\t20\t3\t881250950", "3\t10\t1\t881250951", "2\t30\t4\t881250952"]
TEXT = "\n".join(LINES) + "\n"
REAL = Path(__file__).resolve().parents[1].parent / "shared" / "data"

needs_real_data = pytest.mark.skipif(
    not (REAL / "ml-100k" / "u.data").is_file(), reason=f"MovieLens-100K is not at {REAL}"
)


def pinned(text: str, source: Source = MOVIELENS_100K) -> Source:
    """The source as if `text` were what its publisher made."""
    content = text.encode()
    rows = text.count("\n") - (source.header is not None)
    return replace(source, rows=rows, size=len(content), sha256=hashlib.sha256(content).hexdigest())


def refusal(text: str | bytes, source: Source | None = None) -> str:
    content = text.encode() if isinstance(text, str) else text
    with pytest.raises(DataFileError) as caught:
        parse_ratings(content, source or pinned(TEXT), "u.data")
    message = str(caught.value)
    assert "banister data movielens" in message
    return message


def test_hand_checked_file() -> None:
    ratings = parse_ratings(TEXT.encode(), pinned(TEXT), "u.data")
    assert (ratings.n_users, ratings.n_items) == (3, 3)
    assert ratings.user.tolist() == [0, 0, 2, 1]
    assert ratings.item.tolist() == [0, 1, 0, 2]
    n = np.nan
    np.testing.assert_array_equal(ratings.matrix(), [[1.0, 0.6, n], [n, n, 0.8], [0.2, n, n]])
    assert ratings.digest == hashlib.sha256(TEXT.encode()).hexdigest()


def test_csv_with_header_and_half_stars_and_either_line_end() -> None:
    text = "userId,movieId,rating,timestamp\n1,5,0.5,964982703\n2,5,4.5,964981247\n"
    source = pinned(text, MOVIELENS_LATEST_SMALL)
    for content in (text, text.replace("\n", "\r\n")):
        ratings = parse_ratings(content.encode(), source, "ratings.csv")
        np.testing.assert_allclose(ratings.matrix(), [[0.1], [0.9]])
        assert ratings.digest == source.sha256


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user_id\titem_id\trating\ttimestamp\n" + TEXT, "has a header line ('user_id\\titem_id"),
        (TEXT + "3\t20\t1\t881250953\n", "has 5 rows instead of 4: 1 extra"),
        ("\n".join(LINES[:2]) + "\n", "has 2 rows instead of 4: 2 missing"),
        (TEXT.replace("\t5\t", "\t6\t"), "line 1 has the rating 6, which is not one of 1, 2, 3, 4, 5"),
        (TEXT.replace("\t5\t", "\t4.5\t"), "line 1 has the rating 4.5"),
        (TEXT.replace("\t5\t", "\t4\t"), "values were changed or lines moved"),
        ("\n".join(LINES[::-1]) + "\n", "values were changed or lines moved"),
        (TEXT.replace("881250949", "88125094"), "bytes instead of"),
        (TEXT.rstrip("\n"), "bytes instead of"),
        (TEXT.replace("\n", "\r\n"), "Windows line ends"),
        ("\ufeff" + TEXT, "byte-order mark"),
        (TEXT.replace("\t", ","), "line 1 has 1 fields instead of 4"),
        (TEXT.replace("3\t10\t1", "3\tten\t1"), "line 3 holds something that is no number: '3\\tten"),
        (TEXT.replace("3\t10\t1", "0\t10\t1"), "line 3 has ids [0.0, 10.0]"),
        (TEXT.replace("1\t20\t3", "1\t10\t3"), "line 2 rates item 10 by user 1 again"),
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("user\titem\trating\ttime\n", "it has no ratings"),
        (b"PK\x03\x04rest", "zip archive; unpack u.data"),
        (b"\xff\xfe\x00\x01\n", "fields instead of 4"),
    ],
)
def test_altered_copy_is_refused_with_what_is_wrong(text: str | bytes, words: str) -> None:
    assert words in refusal(text)


def test_all_that_is_wrong_is_said_at_once() -> None:
    message = refusal("user\titem\trating\ttime\n" + TEXT + "3\t20\t9\t881250953\n")
    for words in ("header line", "1 extra", "line 6 has the rating 9"):
        assert words in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,5,0.5,964982703\n2,5,4.5,964981247\n", "has no header line (expected 'userId,movieId"),
        ("u,m,r,t\n1,5,0.5,964982703\n2,5,4.5,964981247\n", "its header is 'u,m,r,t' instead of"),
        ("userId,movieId,rating,timestamp\n1,5,0.25,964982703\n", "line 2 has the rating 0.25"),
    ],
)
def test_altered_csv_is_refused(text: str, words: str) -> None:
    good = "userId,movieId,rating,timestamp\n1,5,0.5,964982703\n2,5,4.5,964981247\n"
    assert words in refusal(text, pinned(good, MOVIELENS_LATEST_SMALL))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    source = replace(MOVIELENS_100K, rows=None, size=None, sha256=None)
    try:
        ratings = parse_ratings(content, source, "u.data")
    except DataFileError:
        return
    assert len(ratings.stars) > 0


@given(position=st.integers(0, len(TEXT) - 1), byte=st.integers(0, 255))
def test_any_changed_byte_is_noticed(position: int, byte: int) -> None:
    content = bytearray(TEXT.encode())
    if content[position] == byte:
        return
    content[position] = byte
    refusal(bytes(content))


def test_file_is_looked_for_in_path_then_variable_then_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("banister.environments.storage.sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BANISTER_DATA", str(tmp_path / "data"))
    cached, chosen, given_ = (
        tmp_path / "cache" / "banister" / "data" / "ml-100k" / "u.data",
        tmp_path / "data" / "ml-100k" / "u.data",
        tmp_path / "here" / "u.data",
    )
    for place in (cached, chosen, given_):
        place.parent.mkdir(parents=True)
        place.write_text(TEXT)
        if place != given_:
            assert find_ratings(MOVIELENS_100K) == place
    assert find_ratings(MOVIELENS_100K, given_) == given_
    assert find_ratings(MOVIELENS_100K, given_.parent) == given_
    assert find_ratings(MOVIELENS_100K, str(chosen.parents[1])) == chosen


def test_missing_file_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANISTER_DATA", str(tmp_path))
    with pytest.raises(DataFileError) as caught:
        find_ratings(MOVIELENS_100K)
    message = str(caught.value)
    assert "`banister data movielens-100k`" in message
    assert f"at {tmp_path / 'ml-100k' / 'u.data'}" in message
    with pytest.raises(DataFileError, match="nowhere"):
        find_ratings(MOVIELENS_100K, tmp_path / "nowhere")


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="cannot be read"):
        read_ratings(tmp_path, MOVIELENS_100K)


def test_unknown_data_set_lists_the_known() -> None:
    assert source_named("movielens-100k") is MOVIELENS_100K
    with pytest.raises(SettingError, match="movielens-latest-small"):
        source_named("netflix")


@needs_real_data
def test_published_files() -> None:
    ratings = read_ratings(find_ratings(MOVIELENS_100K, REAL), MOVIELENS_100K)
    assert (ratings.n_users, ratings.n_items, len(ratings.stars)) == (943, 1682, 100_000)
    assert ratings.stars.mean() == pytest.approx(3.52986, abs=1e-9)
    small = read_ratings(find_ratings(MOVIELENS_LATEST_SMALL, REAL), MOVIELENS_LATEST_SMALL)
    assert (small.n_users, small.n_items, len(small.stars)) == (610, 9724, 100_836)


@needs_real_data
def test_altered_real_copy_is_refused() -> None:
    content = (REAL / "ml-100k" / "u.data").read_bytes()
    with_header = b"user_id\titem_id\trating\ttimestamp\n" + content
    assert "has a header line" in refusal(with_header, MOVIELENS_100K)
    longer = content + b"943\t1\t3\t888639000\n"
    assert "has 100,001 rows instead of 100,000: 1 extra" in refusal(longer, MOVIELENS_100K)
    shorter = content[: content.rindex(b"\n", 0, -1) + 1]
    assert "has 99,999 rows instead of 100,000: 1 missing" in refusal(shorter, MOVIELENS_100K)

"""The rating files that are known: what they look like, where they come from, what their licences allow."""

from __future__ import annotations

from dataclasses import dataclass

from banister.errors import SettingError


@dataclass(frozen=True)
class Source:
    """A rating file as its publisher gives it; `rows`, `size` and `sha256` are not checked where None.

    Attributes:
        name: what users call it, as in `banister data movielens-100k`.
        title: how messages call it.
        folder: its folder inside a data folder, and inside the publisher's archive.
        filename: the file's name.
        url: the publisher's archive.
        delimiter: between the four columns user, item, rating, time.
        header: the first line, or None where there is none.
        scale: the ratings that may occur, ascending.
        rows: number of ratings.
        size: bytes, counted with line ends of one byte where `any_newline` is set.
        sha256: of those bytes.
        any_newline: whether CRLF line ends are taken for LF. The publisher's `ratings.csv` has CRLF, but
            many tools that unpack archives change that.
        licence: what its licence allows.
    """

    name: str
    title: str
    folder: str
    filename: str
    url: str
    delimiter: str
    header: str | None
    scale: tuple[float, ...]
    rows: int | None
    size: int | None
    sha256: str | None
    any_newline: bool
    licence: str


_CITATION = (
    "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5, 4, 19:1-19:19. "
    "https://doi.org/10.1145/2827872"
)

MOVIELENS_100K = Source(
    name="movielens-100k",
    title="MovieLens-100K",
    folder="ml-100k",
    filename="u.data",
    url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
    delimiter="\t",
    header=None,
    scale=(1.0, 2.0, 3.0, 4.0, 5.0),
    rows=100_000,
    size=1_979_173,
    sha256="06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
    any_newline=False,
    licence=(
        "MovieLens-100K may be used for research. It may not be redistributed without permission, used "
        "commercially without permission of GroupLens, or used to imply its endorsement. Publications "
        f"must cite: {_CITATION}"
    ),
)

MOVIELENS_LATEST_SMALL = Source(
    name="movielens-latest-small",
    title="MovieLens latest-small (September 2018)",
    folder="ml-latest-small",
    filename="ratings.csv",
    url="https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",
    delimiter=",",
    header="userId,movieId,rating,timestamp",
    scale=tuple(0.5 * i for i in range(1, 11)),
    rows=100_836,
    size=2_382_886,
    sha256="80da8b3393dae325bbba5a31f291a6ba55d8d4f4396de3c456f2c1635b1b70e8",
    any_newline=True,
    licence=(
        "MovieLens latest-small may be used for research, and redistributed only under the same "
        "conditions. It may not be used commercially without permission of GroupLens, or used to imply "
        f"its endorsement. Publications must cite: {_CITATION}"
    ),
)

SOURCES = {source.name: source for source in (MOVIELENS_100K, MOVIELENS_LATEST_SMALL)}


def source_named(name: str) -> Source:
    """The source of that name, or an error that lists the names there are."""
    if name not in SOURCES:
        raise SettingError(f"There is no data set called {name!r}; known are {', '.join(SOURCES)}.")
    return SOURCES[name]

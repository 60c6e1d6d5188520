"""Reports as text of 80 columns: what left the baseline, why the rest stays, what to do."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from banister.online.claimed import refused

if TYPE_CHECKING:
    from banister.online.advice import Step
    from banister.online.dry_run import DryRun
    from banister.online.off_policy import Estimate
    from banister.online.status import Status, TaskStatus

WIDTH = 80
_SHOWN = 20  # tasks in a table; the rest is counted
_NAME = 8  # columns that a task's label has at least


def dry_run_table(run: DryRun) -> str:
    """A dry run as text."""
    sizes = f"{run.rows:,} rows fitted, {run.candidates} action sets"
    head = f"would leave the baseline in {percent(run.left)} of {run.requests:,} requests ({sizes})"
    lines = [*wrapped(head), *(wrapped(earning(run.gain, "a request"), "  ") if run.gain else [])]
    lines += staying(run.reasons)
    if run.rows_needed:
        lines.append(f"rows still needed in all: {run.rows_needed:,}, played as those fitted were")
    lines += wrapped(refused(run.claims) or "")
    if run.at_risk:
        lines += wrapped(f"at risk, the model does not fit: {', '.join(run.at_risk)}")
    rows = [
        (o.task, f"{o.rows:,}", f"{o.requests:,}", percent(o.left), _needed(o.rows_needed), o.reason)
        for o in run.tasks
    ]
    titles = ("task", "rows", "judged", "left", "rows needed", "why the rest stays")
    return "\n".join([*lines, "", *table(titles, rows), "", *step_lines(run.next)])


def status_table(status: Status) -> str:
    """A status as text."""
    s = status
    lines = wrapped(f"left the baseline in {percent(s.left)} of {s.decisions:,} decisions")
    if s.gain is not None and s.gain_low is not None and s.gain_high is not None:
        measured = interval(s.gain, s.gain_low, s.gain_high)
        lines += wrapped(f"which earned {measured} a decision above it, measured from draws", "  ")
    elif s.uplift:
        lines += wrapped(earning(s.uplift, "each"), "  ")
    lines += wrapped(f"promise: {s.promise}")
    lines += staying(s.reasons)
    counts = (
        f"{s.rewards:,} rewards, {s.pending:,} pending, {s.expired:,} expired, {s.duplicates:,} duplicates"
    )
    model = (
        f"model {s.model_version} (rank {s.rank}), {s.drifts:,} drifts; claimed baseline rewards: {s.claims}"
    )
    lines += [*wrapped(counts), *wrapped(model), *_troubles(s)]
    rows = [
        (
            t.task,
            f"{t.rows:,}",
            f"{t.decisions:,}",
            percent(t.left),
            _interval(t),
            _needed(t.rows_needed),
            t.gate,
        )
        for t in s.tasks
    ]
    titles = ("task", "rows", "decided", "left", "uplift", "rows needed", "gate")
    body = ["", *table(titles, rows)] if rows else []
    return "\n".join([*lines, *body, "", *step_lines(s.next)])


def _troubles(s: Status) -> list[str]:
    """What somebody should look at."""
    lines = wrapped(refused(s.claims) or "")
    if s.wild:
        lines += wrapped(
            f"{s.wild:,} rewards far outside all others count as the largest or smallest of those"
        )
    if s.harmed:
        lines += wrapped(f"draws of the fleet were found to fall short {s.harmed:,} times")
    if s.refit_failure:
        lines += wrapped(f"the last refit failed ({s.refit_failure})")
    return lines


def _interval(t: TaskStatus) -> str:
    if t.gain is not None and t.gain_low is not None and t.gain_high is not None:
        return interval(t.gain, t.gain_low, t.gain_high)
    if t.uplift is None or t.uplift_low is None or t.uplift_high is None:
        return "–"
    return interval(t.uplift, t.uplift_low, t.uplift_high)


def _needed(rows: int | None) -> str:
    return "explore" if rows is None else "–" if rows == 0 else f"{rows:,}"


def earning(e: Estimate, what: str) -> str:
    """`earning 0.008 [0.004, 0.012] a request above it`, or that the interval has no bounds."""
    shown = interval(e.value, e.low, e.high)
    return f"which earns {shown} {what} above it, by {e.method}"


def interval(value: float, low: float, high: float) -> str:
    """`0.0081 [0.0042, 0.0120]`, with as many digits as its width needs to be seen.

    Examples:
        >>> interval(1.02345, 1.02301, 1.02389), interval(12.3, -4.0, 28.6)
        ('1.0234 [1.0230, 1.0239]', '12 [-4, 29]')
    """
    if not math.isfinite(high - low):
        return f"{value:.3g} (too few rows for an interval)"
    width = (high - low) / 2
    digits = min(max(0, -math.floor(math.log10(width))), 12) if width > 0 else 3
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def staying(reasons: Mapping[str, float]) -> list[str]:
    """Why the rest stays: an open gate that kept the baseline is one thing, a shut gate another."""
    lines = []
    for prefix, words in (("kept:", "gate open, baseline kept"), ("fallback:", "gate shut")):
        own = {r.removeprefix(prefix): s for r, s in reasons.items() if r.startswith(prefix)}
        if own:
            which = ", ".join(f"{percent(s)} {r}" for r, s in own.items())
            lines += wrapped(f"{words}: {percent(sum(own.values()))} ({which})")
    return lines


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side, numbers to the right, within `WIDTH`."""
    shown = [titles, *rows[:_SHOWN]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(titles))]
    widths[0] = min(widths[0], max(_NAME, WIDTH - sum(widths[1:]) - 2 * (len(titles) - 1)))
    shown = [[_cut(row[0], widths[0]), *row[1:]] for row in shown]
    last = len(titles) - 1
    lines = []
    for row in shown:
        cells = [
            c.rjust(w) if 0 < i < last else c.ljust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(_cut("  ".join(cells).rstrip(), WIDTH))
    more = len(rows) - _SHOWN
    return [*lines, f"… and {more:,} more tasks"] if more > 0 else lines


def step_lines(step: Step) -> list[str]:
    """The next step, wrapped; a long command goes on with backslashes, ready to be pasted."""
    lines = wrapped(f"next: {step.words}")
    return [*lines, *folded(step.command)] if step.command else lines


def folded(command: str) -> list[str]:
    """A shell command in lines that end in a backslash."""
    lines, line = [], " "
    for word in map(shlex.quote, shlex.split(command)) if command.startswith("banister ") else [command]:
        if len(line) + 1 + len(word) > WIDTH - 2 and line.strip():
            lines.append(line + " \\")
            line = "   "
        line += f" {word}"
    return [*lines, line]


def wrapped(words: str, indent: str = "") -> list[str]:
    """Lines of at most `WIDTH` columns."""
    return textwrap.wrap(words, WIDTH, initial_indent=indent, subsequent_indent=indent or "  ")


def percent(share: float) -> str:
    """`7 %`; a share that is there is never shown as 0, one that lacks something never as 100."""
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def plain_numbers(value: Any) -> Any:
    """As JSON can hold it: numbers that are not finite become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain_numbers(v) for key, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain_numbers(v) for v in value]
    return value

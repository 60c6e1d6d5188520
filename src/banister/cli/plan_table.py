"""A plan printed so that it teaches: each figure with where it comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from banister.studies.plan_logs import LogFindings
from banister.studies.plan_trials import ALONE, RIVAL, SHARED, Group, Spread
from banister.studies.planner import Plan

Rows = list[tuple[str, str, str]]

_ORDER = "C unstated: an order of growth"
_ALONE_RATE, _OUR_RATE = "Naive extension of Moradipari et al., 2020", "Safe-AltGDmin"


def print_plan(plan: Plan, figure: Path | None = None, *, bounds: bool = False) -> None:
    """Print the table and the notes; the paper's bounds and their constants if they are asked for."""
    console = Console()
    table = Table(title="A plan for safe multi-task learning", pad_edge=False)
    table.add_column("question", style="bold", overflow="fold")
    table.add_column("answer", overflow="fold")
    table.add_column("where it comes from", style="dim", overflow="fold")
    found = [_logs(plan.logs, bounds)] if plan.logs is not None else []
    theory = [_safety(plan)] if bounds else []
    sections = [*found, _setting(plan, bounds), *theory, _needed(plan, bounds), _regret(plan, bounds)]
    for rows in filter(None, [*sections, _sharing(plan, bounds)]):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    console.print(table)
    for note in plan.notes():
        console.print(f"• {note}", highlight=False)
    if figure is not None:
        console.print(f"• The picture is in {figure}.", highlight=False)


def _logs(found: LogFindings, bounds: bool) -> Rows:
    least, middle, most = found.counts
    sizes = f"{found.rows:,} rows, {found.tasks} tasks, {found.dim} features"
    strength = f"weakest direction {found.weakest:.1f} times as strong as noise alone"
    rows = [
        ("found in the logs", sizes, f"rows a task: {least} to {most}, median {middle}"),
        ("…rank", f"{found.rank}", strength),
    ]
    for name in ("noise", "signal", *(("kappa", "mu") if bounds else ())):
        value = getattr(found, name)
        words = f"{value.value:.3g}  ({value.low:.3g} to {value.high:.3g})"
        rows.append((f"…{name}", words, "features whitened; 90 % by refits of simulated rewards"))
    if found.open_tasks is not None:
        why = ", ".join(f"{n} {reason}" for reason, n in found.shut.items()) or "no task is shut"
        rows.append(("…certificate from them", f"open for {found.open_tasks:.0%} of the tasks", why))
    return rows


def _setting(plan: Plan, bounds: bool) -> Rows:
    s, scale = plan.setting, plan.bounds["scale"]
    sizes = f"d={s.dim}, r={s.rank}, T={s.tasks}, α={s.alpha:g}, noise {s.noise:.3g}"
    known = "known" if s.known_baseline else "unknown"
    place = f"the policy in place plays action {s.baseline_rank} of {s.actions}, its reward {known}"
    return [
        ("setting", sizes, f"{s.epochs} epochs of {s.rows_per_epoch} rounds; {place}"),
        (
            "signal and noise",
            f"‖θ_t‖ {scale['task_norm']:.3g}, NSR {scale['nsr']:.3g}",
            f"κ={scale['kappa']:.3g}, μ={scale['mu']:.3g}, so ‖θ_t‖ ≤ {scale['theta_norm_bound']:.3g}"
            if bounds
            else "spread of expected rewards between actions; noise beside it",
        ),
    ]


def _safety(plan: Plan) -> Rows:
    rho, steps, sent = plan.bounds["rho"], plan.bounds["iterations"], plan.bounds["communication"]
    z, norm, delta = (rho["constants"][name] for name in ("z", "theta_norm", "delta"))
    safe = f"{rho['median']:.2g} in the median round ({rho['low']:.2g} to {rho['high']:.2g})"
    lemma = f"{rho['source']}: z={z:.3g}, ‖θ_t‖={norm:.3g}, δ={delta:g}; varies with r_b"
    mega = f"{sent['iterations']:.0f} iterations of all tasks: {sent['bytes_per_epoch'] / 1e6:.3g} MB"
    return [
        ("largest safe ρ", safe, lemma),
        (
            "iterations",
            f"{steps['safety_median']:.0f} in the median round, {steps['safety_99']:.0f} for 99 %",
            f"{steps['source']}; c={steps['constants']['c']:g}",
        ),
        (
            "communication",
            f"{sent['bytes_per_task_and_iteration']:,.0f} bytes a task and iteration",
            f"d×r numbers out, d×r in; {mega}",
        ),
    ]


def _needed(plan: Plan, bounds: bool) -> Rows:
    shared = plan.group(SHARED)
    return [*(_bound_rows(plan) if bounds else []), *([] if shared is None else _simulated_rows(shared))]


def _bound_rows(plan: Plan) -> Rows:
    target, later = plan.bounds["rows"]["target_distance"], plan.bounds["rows"]["later_epoch"]
    words = f"C · {later['rows_per_task']:,.0f}, all tasks C · {later['total']:,.0f}"
    return [("rows a task, by the bound", words, f"{later['source']}, to SD {target:.2g}; {_ORDER}")]


def _simulated_rows(shared: Group) -> Rows:
    serving = shared.serving()
    total = f", {serving.median * shared.tasks:,.0f} in all" if np.isfinite(serving.median) else ""
    broken, asked = (sum(getattr(t, name) for t in shared.trials) for name in ("violations", "decisions"))
    opening = f"{_rounds(shared.opening(), shared)} until the first certified step off the baseline"
    half = f"{_rounds(serving, shared)} until half of all decisions take one{total}"
    return [
        ("rows a task, simulated", opening, _trust(shared)),
        ("", half, f"in the last round {shared.share()[1, -1]:.0%} do"),
        ("will it be safe?", f"{broken} of {asked:,} decisions below the floor", "simulated, all trials"),
    ]


def _regret(plan: Plan, bounds: bool) -> Rows:
    bound, rates = plan.bounds["regret"], plan.bounds["rates"]
    ratio = rates[_ALONE_RATE] / rates[_OUR_RATE]
    rows = [
        (
            "regret of all tasks, never learning",
            f"{bound['baseline_only']:,.0f}",
            f"{bound['baseline_per_round']:.3g} a round (Gaussian order statistics)",
        ),
    ]
    if bounds:
        printed, first = bound["printed"]["value"], bound["first_epoch"]
        rows += [
            ("…by the bound", f"{printed:,.0f}", "Theorem T10 as printed: no mean in epoch 1"),
            ("…epoch 1, corrected", f"{first['value']:,.0f}", first["source"]),
            ("…by rates", f"alone {ratio:,.0f} times shared", "Table I: d T √N against √(rNT), no constants"),
        ]
    return rows + [_simulated_regret(plan, g) for g in plan.groups if g.name in (SHARED, ALONE, RIVAL)]


def _simulated_regret(plan: Plan, group: Group) -> tuple[str, str, str]:
    names = {SHARED: "shared", ALONE: "each task alone", RIVAL: "Thompson sampling, alone"}
    sources = {
        SHARED: "certified Safe-AltGDmin",
        ALONE: "the same certificate on one task, times T",
        RIVAL: "told noise and ‖θ_t‖; a few tasks stand for all",
    }
    spread, tasks = group.regret(), plan.setting.tasks
    middle, low, high = (f"{value * tasks:,.0f}" for value in (spread.median, spread.low, spread.high))
    source = f"{sources[group.name]}; {_trials(group)}"
    words = middle if low == high else f"{middle}  ({low} to {high})"
    return f"…simulated, {names[group.name]}", words, source


def _sharing(plan: Plan, bounds: bool) -> Rows:
    bound, groups, pays = plan.bounds["sharing"], plan.by_tasks(), plan.sharing_pays_from()
    asked = ("sharing pays, by the bound", f"from T = C · {bound['value']:,.0f} on", _ORDER)
    rows = [asked] if bounds else []
    if len(groups) < 2:
        return rows
    words = "at no number of tasks tried" if pays is None else f"from T = {pays} on, of those tried"
    rows.append(("sharing pays, simulated", words, "where a task costs at most 0.9 of what it costs alone"))
    for group in groups:
        half = _rounds(group.serving(), group)
        words = f"{group.regret().median:.3g} a task; half off the baseline after {half}"
        rows.append((f"…T = {group.tasks}", words, _trials(group)))
    return rows


def _rounds(spread: Spread, group: Group) -> str:
    horizon = len(group.trials[0].share)
    middle, low, high = (
        f"{value:.0f}" if np.isfinite(value) else f"over {horizon}"
        for value in (spread.median, spread.low, spread.high)
    )
    return middle if low == high else f"{middle} ({low} to {high})"


def _trials(group: Group) -> str:
    n = len(group.trials)
    return f"{n} trial{'s' * (n > 1)}"


def _trust(group: Group) -> str:
    if len(group.trials) < 3:
        return _trials(group)
    return f"{_trials(group)}, whose range holds the true median with {group.opening().coverage:.0%}"

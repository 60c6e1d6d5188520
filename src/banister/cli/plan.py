"""`banister plan`: how much data, which ρ, what regret to expect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from banister.cli.app import app
from banister.cli.columns import ARM, CATEGORICAL, CONTEXT, arms_of, split
from banister.errors import InputError

if TYPE_CHECKING:
    from banister.studies.plan_logs import LogFindings
    from banister.studies.plan_trials import Tell

_Setting = partial(typer.Option, rich_help_panel="Setting")
_Logs = partial(typer.Option, rich_help_panel="Logs")
_Trials = partial(typer.Option, rich_help_panel="Simulation")
_Output = partial(typer.Option, rich_help_panel="Output")

_SIGNAL = (
    "Standard deviation of expected reward between actions, ‖θ_t‖, root mean square over tasks. "
    "Default: the paper's √(r/T)."
)
_KNOWN = (
    "Whether the baseline's expected reward is known in every round. Default: known; unknown for a raw log."
)
_RANGE = "Least and most an unknown baseline earns."
_LOGS = (
    "Parquet or CSV logs of the policy in place: sizes, rank, noise, κ and signal are estimated from them "
    "unless given."
)


@app.command()
def plan(
    dim: Annotated[int | None, _Setting(help="d, features of an action. Default: 100.")] = None,
    rank: Annotated[int | None, _Setting(help="r, directions the tasks share. Default: 2.")] = None,
    tasks: Annotated[int | None, _Setting(help="T. Default: 100.")] = None,
    noise: Annotated[float | None, _Setting(help="Std of the reward noise. Default: 0.001.")] = None,
    alpha: Annotated[float, _Setting(help="Share of the baseline reward that may be risked.")] = 0.2,
    rows_per_epoch: Annotated[int, _Setting(help="Rows a task brings in an epoch.")] = 50,
    epochs: Annotated[int, _Setting(help="Epochs planned for.")] = 4,
    actions: Annotated[
        int | None, _Setting(help="K, actions on offer in a round. Default: 10, or a raw log's arms.")
    ] = None,
    baseline_rank: Annotated[
        int | None, _Setting(help="The policy in place plays the action this good. Default: the middle one.")
    ] = None,
    kappa: Annotated[float | None, _Setting(help="Strongest over weakest direction. Default: 1.")] = None,
    signal: Annotated[float | None, _Setting(help=_SIGNAL)] = None,
    known_baseline: Annotated[
        bool | None, _Setting("--known-baseline/--unknown-baseline", help=_KNOWN)
    ] = None,
    baseline_range: Annotated[tuple[float, float] | None, _Setting(help=_RANGE)] = None,
    delta: Annotated[float, _Setting(help="Probability with which the paper's statements may fail.")] = 0.05,
    logs: Annotated[Path | None, _Logs(help=_LOGS)] = None,
    task: Annotated[str, _Logs(help="The logs' task column.")] = "task",
    reward: Annotated[str, _Logs(help="The logs' reward column.")] = "reward",
    features: Annotated[
        str, _Logs(help="Pattern of the logs' feature columns, or names with commas.")
    ] = "f*",
    arm: Annotated[str | None, _Logs(help=ARM)] = None,
    context: Annotated[str | None, _Logs(help=CONTEXT)] = None,
    categorical: Annotated[str | None, _Logs(help=CATEGORICAL)] = None,
    trials: Annotated[int, _Trials(help="Trials of each kind, at most; 0 for the bounds alone.")] = 5,
    seconds: Annotated[float, _Trials(help="Begin no further trial once these are spent.")] = 15.0,
    seed: Annotated[int, _Trials(help="Of everything random.")] = 0,
    bounds: Annotated[
        bool, _Output("--bounds", help="Show the paper's bounds and their constants too.")
    ] = False,
    as_json: Annotated[bool, _Output("--json", help="Print JSON instead of a table.")] = False,
    figure: Annotated[Path | None, _Output(help="Write a picture: .png, .svg or .pdf.")] = None,
) -> None:
    """How much data do I need, and will it be safe?

    A simulation of your setting; with --bounds the paper's bounds beside it. Without options: the paper's
    experiments.

    [bold]A raw log[/]: banister plan --logs log.csv --task store --arm banner --context 'age,basket,device'
    --reward click --alpha 0.1
    """
    from banister.studies.plan_figure import check_figure, draw_plan
    from banister.studies.plan_setting import PlanSetting
    from banister.studies.planner import plan as make_plan

    if figure is not None:
        check_figure(figure, trials)
    given = {"dim": dim, "rank": rank, "tasks": tasks, "noise": noise, "kappa": kappa, "signal": signal}
    arms = _arms(logs, arm, context, categorical)
    actions = actions or (10 if arms is None else len(arms.names))
    rest: dict[str, Any] = {
        "alpha": alpha, "rows_per_epoch": rows_per_epoch, "epochs": epochs, "actions": actions,
        "baseline_rank": baseline_rank or -(-actions // 2), "baseline_range": baseline_range,
        "known_baseline": arms is None if known_baseline is None else known_baseline,
        "delta": delta,
    }  # fmt: skip
    # What can be wrong is found before logs are read or anything is simulated.
    setting = PlanSetting(**rest) if logs else PlanSetting(**rest, **_given(given))
    with _progress() as tell:
        columns = {"task": task, "reward": reward, "features": _features(features), "arms": arms}
        columns |= {} if arm is None else {"arm": arm}
        found = None if logs is None else _study(logs, columns, seed, given, tell)
        if found is not None:
            setting = PlanSetting(**rest, **_settled(given, found))
        answer = make_plan(setting, trials=trials, seconds=seconds, seed=seed, logs=found, tell=tell)
    if figure is not None:
        draw_plan(answer, figure)
    if as_json:
        told = answer.as_dict()
        typer.echo(json.dumps(told if bounds else {k: v for k, v in told.items() if k != "bounds"}, indent=2))
        return
    from banister.cli.plan_table import print_plan

    print_plan(answer, figure, bounds=bounds)


def _arms(logs: Path | None, arm: str | None, context: str | None, categorical: str | None) -> Any:
    """Arms without a part that all share: what is shared is what a plan looks for."""
    if logs is None:
        if arm is not None or context is not None or categorical is not None:
            raise InputError("--arm and --context name columns of a log; give it with --logs.")
        return None
    return arms_of(logs, arm, context, categorical, shared=False)


def _features(features: str) -> str | list[str]:
    return split(features) if "," in features else features


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _settled(given: dict[str, Any], found: LogFindings) -> dict[str, Any]:
    """What was given, and for the rest what the logs say."""
    estimated: dict[str, Any] = {
        "dim": found.dim,
        "tasks": found.tasks,
        "rank": found.rank,
        "noise": found.noise.value,
        "signal": found.signal.value,
        "kappa": found.kappa.value,
    }
    if given["rank"] not in (None, found.rank):
        estimated["kappa"] = 1.0  # the one estimated belongs to another rank
    return {**estimated, **_given(given)}


def _study(path: Path, columns: dict[str, Any], seed: int, given: dict[str, Any], tell: Tell) -> LogFindings:
    from banister.errors import SettingError
    from banister.studies.plan_logs import read_logs, study_logs

    tell(f"reading {path}", 0.0)
    data = read_logs(path, **columns)
    if given["dim"] not in (None, data.dim):
        raise SettingError(
            f"--dim {given['dim']} contradicts the logs, which have {data.dim} features; leave it out."
        )
    tell("fitting the logs", 0.0)
    return study_logs(data, seed=seed)


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar on stderr, so that stdout stays clean for pipes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("", total=1.0)
        yield lambda words, share: bar.update(line, description=words, completed=share)

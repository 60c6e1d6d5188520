"""`banister fit`, `decide`, `evaluate`, `status`, `warm-up`: a bandit from a shell, JSON in and out."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from banister.cli.app import app
from banister.cli.columns import Arm, Categorical, Context, arms_of
from banister.cli.draws import Holdout, OnHarm, PromiseName, RewardRange, draw_settings
from banister.cli.pooled import fit_pool
from banister.errors import DataFileError, InputError

_LOGS = "Rows of the policy in place: .parquet or .csv"
_Logs = Annotated[Path, typer.Argument(help=f"{_LOGS}.")]
_LogsOrFolder = Annotated[Path, typer.Argument(help=f"{_LOGS} (with --pool: a packed folder).")]
_Model = Annotated[
    str,
    typer.Argument(help="What `banister fit` wrote, its ledger beside it; or a postgresql:// URL."),
]
_Task = Annotated[str, typer.Option(help="Column that names the task.")]
_Reward = Annotated[str, typer.Option(help="Column with what was earned.")]
_Features = Annotated[
    str, typer.Option(help="Columns of features: a pattern such as 'f*', or names with commas.")
]
_Known = Annotated[
    str | None, typer.Option(help="Column with what the baseline was expected to earn, if known.")
]
_Actions = Annotated[str | None, typer.Option(help="Column of lists of lists: all actions on offer.")]
_Baseline = Annotated[
    str | None,
    typer.Option(
        help="Column with the index among them of what the policy in place would play; with --arm a column "
        "of names, or an arm."
    ),
]
_Alpha = Annotated[
    float, typer.Option(help="Share of the baseline reward that may be risked, between 0 and 1.")
]
_Rank = Annotated[int | None, typer.Option(help="Directions that tasks share; found in the data by default.")]
_Seed = Annotated[int | None, typer.Option(help="Of all randomness; a new one each time by default.")]

_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

_Pool = Annotated[
    str | None, typer.Option(help="disk or ray: fit the representation of a packed folder, nothing else.")
]
_Address = Annotated[
    str | None, typer.Option(help="Of a running Ray cluster; one is started here by default.")
]
_NEEDED = {"task": "whose decision it is", "baseline": "what the policy in place would play"}
_Shards = Annotated[int | None, typer.Option(help="Workers (ray) or threads (disk); all by default.")]


def _columns(features: str, **names: str | None) -> dict[str, Any]:
    return {"features": features.split(",") if "," in features else features, **names}


def _log_columns(arm: str | None, features: str, actions: str | None, **names: str | None) -> dict[str, Any]:
    """The columns that `warm_start` and `dry_run` are told of, for a raw log or one of feature rows."""
    if arm is not None:
        return {"arm": arm, **names}
    return _columns(features, actions=actions, **names)


def _print(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def _tell(report: Any, as_json: bool) -> None:
    """A report as a table of 80 columns, or as JSON."""
    if as_json:
        _print(report.to_dict())
    else:
        typer.echo(str(report))


def _command(name: str, logs: Path, options: dict[str, Any]) -> str:
    """A command that can be pasted; options that were left out stay out."""
    words = ["banister", name, str(logs)]
    for option, value in options.items():
        if value is not None:
            words += [f"--{option.replace('_', '-')}", str(value)]
    return shlex.join(words)


@app.command()
def fit(
    logs: _LogsOrFolder,
    out: Annotated[Path, typer.Option(help="Where the model goes; its ledger goes beside it.")],
    task: _Task = "task",
    reward: _Reward = "reward",
    features: _Features = "f*",
    baseline_reward: _Known = None,
    actions: _Actions = None,
    baseline: _Baseline = None,
    arm: Arm = None,
    context: Context = None,
    categorical: Categorical = None,
    alpha: _Alpha = 0.1,
    rank: _Rank = None,
    reward_range: RewardRange = None,
    promise: PromiseName = None,
    holdout: Holdout = None,
    on_harm: OnHarm = None,
    seed: _Seed = None,
    pool: _Pool = None,
    address: _Address = None,
    shards: _Shards = None,
    as_json: _Json = False,
) -> None:
    """Fit a model to logs of the policy in place.

    [bold]Example[/]: banister fit logs.parquet --task store --reward revenue --features 'f*' --alpha 0.1
    --out model.banister

    [bold]A raw log[/]: banister fit log.csv --task store --arm banner --context 'age,basket,device,region'
    --reward click --alpha 0.1 --out shop.banister

    [bold]With a promise[/]: banister fit log.csv --task store --arm banner --context age --reward click
    --reward-range 0,1 --promise task --out shop.banister

    Prints where every task stands: its rows, and "open" or what keeps its gate shut.

    With [bold]--pool[/] the representation alone is fitted, to a folder that `banister data pack` made:
    banister fit packed --pool disk --out model.npz
    """
    if pool is not None:
        _print(fit_pool(logs, out, pool=pool, address=address, shards=shards, rank=rank))
        return
    from banister.features.frames import read_frame
    from banister.online.bandit import SafeBandit
    from banister.online.files import ledger_path, remove_store
    from banister.online.logs import LogRows, read_logs
    from banister.online.raw import RawRows, raw_rows

    if out.exists() or ledger_path(out).exists():
        raise InputError(f"There is a model at {str(out)!r} already; remove it, or choose another name.")
    names = {"task": task, "reward": reward, "baseline_reward": baseline_reward, "baseline": baseline}
    made, frame = arms_of(logs, arm, context, categorical), read_frame(logs)
    rows: LogRows | RawRows
    if made is None:
        rows = read_logs(frame, **_log_columns(arm, features, actions, **names))
    else:
        rows = raw_rows(frame, made.learn(frame), **_log_columns(arm, features, actions, **names))
    draws = draw_settings(reward_range, promise, holdout, on_harm)
    with SafeBandit(alpha, features=made, path=out, rank=rank, seed=seed, refits="manual", **draws) as bandit:
        try:
            bandit.warm_start(rows)
        except BaseException:
            bandit.close()
            remove_store(out)
            raise
        _tell(bandit.status(), as_json)


@app.command()
def decide(
    model: _Model,
    requests: Annotated[
        str, typer.Argument(help="JSON, a file of JSON lines, or - for standard input.")
    ] = "-",
) -> None:
    """Decide requests and take in rewards, one JSON object a line; one answer a line comes back.

    A request: {"task": "a", "actions": [[0.2, 1.0], [0.4, 0.8]], "baseline": 0, "baseline_reward": 0.42}

    With arms: {"task": "a", "context": {"age": 41, "device": "ios"}, "baseline": "bundle"}

    A reward: {"id": 1, "reward": 0.61}

    [bold]Example[/]: banister decide model.banister '{"task": "a", "actions": [[1, 0]], "baseline": 0}'

    Each line is durable in the ledger before its answer is printed. A baseline_reward may be a number,
    a list of two bounds, or absent. {"refit": true} fits everything seen so far.
    """
    from banister.online.bandit import SafeBandit

    with SafeBandit.load(model) as bandit:
        for number, line in enumerate(_lines(requests), start=1):
            _print(_answer(bandit, line, number))


def _lines(source: str) -> Any:
    if source.lstrip().startswith("{"):
        return [source]
    if source == "-":
        return (line for line in sys.stdin if line.strip())
    path = Path(source)
    if not path.is_file():
        raise InputError(f"{source!r} is neither JSON nor a file; give an object, a file of them, or -.")
    try:
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as reason:
        raise DataFileError(f"{source} cannot be read ({reason.reason}); save it as UTF-8.") from None


def _answer(bandit: Any, line: str, number: int) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except json.JSONDecodeError as reason:
        raise InputError(f"Line {number} is not JSON ({reason}).") from None
    if not isinstance(request, dict):
        raise InputError(f'Line {number} must be a JSON object, such as {{"task": …}}.')
    if request == {"refit": True}:
        return {"model_version": bandit.refit()}
    if set(request) == {"id", "reward"}:
        return {"id": request["id"], "outcome": bandit.reward(request["id"], request["reward"])}
    _check_names(request, number, list(signature(bandit.decide).parameters))
    answer: dict[str, Any] = bandit.decide(**request).to_dict()
    return answer


def _check_names(request: dict[str, Any], number: int, known: list[str]) -> None:
    """A request has the fields it needs, and no other."""
    for name in request:
        if name not in known:
            raise InputError(f"Line {number} has {name!r}; what a request may have is {', '.join(known)}.")
    for name, meaning in _NEEDED.items():
        if name not in request:
            raise InputError(f"Line {number} has no {name!r}, {meaning}.")


@app.command()
def evaluate(
    logs: _Logs,
    task: _Task = "task",
    reward: _Reward = "reward",
    features: _Features = "f*",
    baseline_reward: _Known = None,
    actions: _Actions = None,
    baseline: _Baseline = None,
    propensity: Annotated[
        str | None,
        typer.Option(help="Column with the probability of what was played, for estimates from rewards."),
    ] = None,
    arm: Arm = None,
    context: Context = None,
    categorical: Categorical = None,
    share: Annotated[
        float, typer.Option(help="Share of the rows, in their order, to fit; the rest is judged.")
    ] = 0.5,
    alpha: _Alpha = 0.1,
    rank: _Rank = None,
    seed: Annotated[int, typer.Option(help="Of all randomness; the same seed gives the same answer.")] = 0,
    time: Annotated[
        str | None, typer.Option(help="Column of dates or times, to tell how many days a need takes.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """What a bandit would have done on logs, before going live.

    First the share of requests that would leave the baseline and what that earns, then why the rest stays,
    how many rows are still needed, and what to do next, with the command.

    [bold]Example[/]: banister evaluate logs.parquet --task store --reward revenue --features 'f*'
    --actions offered --baseline usual --propensity p

    Estimates say how they were made: a model's opinion, or from logged rewards themselves, which needs the
    logging policy's probabilities.
    """
    from banister.online.bandit import SafeBandit

    made = arms_of(logs, arm, context, categorical)
    bandit = SafeBandit(alpha, features=made, rank=rank, seed=seed, refits="manual")
    names = {"task": task, "reward": reward, "baseline_reward": baseline_reward, "propensity": propensity}
    columns = _log_columns(arm, features, actions, **names, baseline=baseline)
    found = bandit.dry_run(logs, share=share, time=time, **columns)
    given: dict[str, Any] = {
        "task": task,
        "reward": reward,
        "baseline_reward": baseline_reward,
        "baseline": baseline,
    }
    given |= {"arm": arm, "context": context, "categorical": categorical} if arm else {"features": features}
    given |= {"actions": actions, "alpha": alpha, "rank": rank}
    _tell(replace(found, next=_with_command(found.next, logs, given, propensity, time)), as_json)


def _with_command(
    step: Any, logs: Path, given: dict[str, Any], propensity: str | None, time: str | None
) -> Any:
    """The next step with the command that takes it; or, after more rows, the one to repeat."""
    if step.kind == "live":
        return replace(step, command=_command("fit", logs, {**given, "out": logs.with_suffix(".banister")}))
    if step.kind in ("more", "explore", "rewards", "unknown"):
        more = {"propensity": propensity, "time": time}
        return replace(step, command=_command("evaluate", logs, {**given, **more}))
    if step.kind == "features":
        raw = {"task": given["task"], "reward": given["reward"], "arm": "ARM", "context": "COLUMN,COLUMN"}
        return replace(step, command=_command("evaluate", logs, raw))
    return step


@app.command()
def status(
    model: _Model,
    audit: Annotated[
        bool, typer.Option(help="Replay the ledger too, and fail (exit code 1) if it does.")
    ] = False,
    receipt: Annotated[
        Path | None,
        typer.Option(help="A receipt kept from before, as JSON: the audit compares the ledger with it."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Where every task stands: what left the baseline and what that earned, why the rest stays, what to do.

    Works while another process serves. With --json there is "receipt", to keep elsewhere for a later audit.

    [bold]Example[/]: banister status model.banister --audit
    """
    from banister.online.bandit import SafeBandit

    kept = None if receipt is None else _receipt(receipt)
    with SafeBandit.open_read_only(model) as bandit:
        report, head = bandit.status(), bandit.receipt().to_dict()
        found = bandit.audit(kept) if audit or kept is not None else None
    passed = found is None or found.passed
    if as_json:
        told = {} if found is None else {"audit": _audited(found)}
        _print({**report.to_dict(), "receipt": head, **told})
    else:
        typer.echo(f"{report}\n\n{found}" if found is not None else str(report))
    raise typer.Exit(0 if passed else 1)


def _audited(found: Any) -> dict[str, Any]:
    return {"passed": found.passed, "repeated": found.repeated, "problems": found.problems}


def _receipt(path: Path) -> Any:
    """A receipt from a file that holds one, or a whole status."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as reason:
        raise InputError(f"{str(path)!r} holds no receipt ({reason}).") from None
    return values.get("receipt", values) if isinstance(values, dict) else values


@app.command("warm-up")
def warm_up(
    folder: Annotated[Path, typer.Argument(help="Where compiled kernels go; made if it is not there.")],
) -> None:
    """Compile every kernel into a folder, so that no later process has to.

    [bold]Example[/]: banister warm-up /opt/banister-cache

    Processes with NUMBA_CACHE_DIR set to that folder then start at once, also where they may only read it.
    """
    import os
    import subprocess

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise InputError(f"{str(folder)!r} cannot be made ({reason}).") from None
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder.resolve())}
    command = [sys.executable, "-m", "banister.online.warm_up"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"The kernels could not be compiled: {done.stderr.strip().splitlines()[-1:]}")
    _print({"folder": str(folder), "kernels": sum(1 for _ in folder.rglob("*.nbi"))})

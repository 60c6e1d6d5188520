"""`banister fit`, `decide`, `evaluate`, `status`: a bandit from a shell, JSON in and out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from banister.cli.app import app
from banister.cli.pooled import fit_pool
from banister.errors import InputError

_Logs = Annotated[
    Path, typer.Argument(help="Rows of the policy in place: .parquet or .csv (with --pool: a packed folder).")
]
_Model = Annotated[Path, typer.Argument(help="What `banister fit` wrote; its ledger lies beside it.")]
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
    str | None, typer.Option(help="Column with the index among them of what the policy in place would play.")
]
_Alpha = Annotated[
    float, typer.Option(help="Share of the baseline reward that may be risked, between 0 and 1.")
]
_Rank = Annotated[int | None, typer.Option(help="Directions that tasks share; found in the data by default.")]
_Seed = Annotated[int | None, typer.Option(help="Of all randomness; drawn by default.")]

_Pool = Annotated[
    str | None, typer.Option(help="disk or ray: fit the representation of a packed folder, nothing else.")
]
_Address = Annotated[
    str | None, typer.Option(help="Of a running Ray cluster; one is started here by default.")
]
_Shards = Annotated[int | None, typer.Option(help="Workers (ray) or threads (disk); all by default.")]


def _columns(features: str, **names: str | None) -> dict[str, Any]:
    return {"features": features.split(",") if "," in features else features, **names}


def _print(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


@app.command()
def fit(
    logs: _Logs,
    out: Annotated[Path, typer.Option(help="Where the model goes; its ledger goes beside it.")],
    task: _Task = "task",
    reward: _Reward = "reward",
    features: _Features = "f*",
    baseline_reward: _Known = None,
    actions: _Actions = None,
    baseline: _Baseline = None,
    alpha: _Alpha = 0.1,
    rank: _Rank = None,
    seed: _Seed = None,
    pool: _Pool = None,
    address: _Address = None,
    shards: _Shards = None,
) -> None:
    """Fit a model to logs of the policy in place.

    [bold]Example[/]: banister fit logs.parquet --task store --reward revenue --features 'f*' --alpha 0.1
    --out model.banister

    Prints where every task stands, as JSON: its rows, and "open" or what keeps its gate shut.

    With [bold]--pool[/] the representation alone is fitted, to a folder that `banister data pack` made:
    banister fit packed --pool disk --out model.npz
    """
    if pool is not None:
        _print(fit_pool(logs, out, pool=pool, address=address, shards=shards, rank=rank))
        return
    from banister.online.bandit import SafeBandit
    from banister.online.files import ledger_path

    if out.exists() or ledger_path(out).exists():
        raise InputError(f"There is a model at {str(out)!r} already; remove it, or choose another name.")
    with SafeBandit(alpha, path=out, rank=rank, seed=seed, refits="manual") as bandit:
        names = {"task": task, "reward": reward, "baseline_reward": baseline_reward}
        bandit.warm_start(logs, **_columns(features, **names, actions=actions, baseline=baseline))
        _print(bandit.status().to_dict())


@app.command()
def decide(
    model: _Model,
    requests: Annotated[
        str, typer.Argument(help="JSON, a file of JSON lines, or - for standard input.")
    ] = "-",
) -> None:
    """Decide requests and take in rewards, one JSON object a line; one answer a line comes back.

    A request: {"task": "a", "actions": [[0.2, 1.0], [0.4, 0.8]], "baseline": 0, "baseline_reward": 0.42}

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
    return [line for line in path.read_text().splitlines() if line.strip()]


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
    try:
        answer: dict[str, Any] = bandit.decide(**request).to_dict()
    except TypeError as reason:
        raise InputError(f"Line {number}: {str(reason).removeprefix('SafeBandit.')}.") from None
    return answer


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
    share: Annotated[
        float, typer.Option(help="Share of the rows, in their order, to fit; the rest is judged.")
    ] = 0.5,
    alpha: _Alpha = 0.1,
    rank: _Rank = None,
    seed: _Seed = 0,
) -> None:
    """What a bandit would have done on logs, before going live: share certified, uplift, data still needed.

    [bold]Example[/]: banister evaluate logs.parquet --task store --reward revenue --features 'f*'
    --actions offered --baseline usual --propensity p

    Estimates say how they were made: "direct" ones are a model's opinion, the others come from logged rewards
    and need the logging policy's probabilities.
    """
    from banister.online.bandit import SafeBandit

    bandit = SafeBandit(alpha, rank=rank, seed=seed, refits="manual")
    names = {"task": task, "reward": reward, "baseline_reward": baseline_reward, "propensity": propensity}
    columns = _columns(features, **names, actions=actions, baseline=baseline)
    _print(bandit.dry_run(logs, share=share, **columns).to_dict())


@app.command()
def status(
    model: _Model,
    audit: Annotated[
        bool, typer.Option(help="Replay the ledger too, and fail (exit code 1) if it does.")
    ] = False,
) -> None:
    """Where every task stands: rows, share certified, uplift with interval, worst margin, why not certified.

    [bold]Example[/]: banister status model.banister --audit
    """
    from banister.online.bandit import SafeBandit

    with SafeBandit.load(model) as bandit:
        report = bandit.status().to_dict()
        if not audit:
            _print(report)
            return
        found = bandit.audit()
    _print(
        {**report, "audit": {"passed": found.passed, "repeated": found.repeated, "problems": found.problems}}
    )
    raise typer.Exit(0 if found.passed else 1)

"""`banister serve` and `banister token`: the service from a shell."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from banister.cli.app import app
from banister.cli.draws import Holdout, OnHarm, PromiseName, RewardRange, draw_settings
from banister.extras import SERVE, need


@app.command()
def serve(
    store: Annotated[
        str | None, typer.Argument(help="Where decisions are kept: a path, or postgresql://… for a database.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 8080 by default.")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Start the store if it is not there: the share that may be risked.")
    ] = None,
    reward_range: RewardRange = None,
    promise: PromiseName = None,
    holdout: Holdout = None,
    on_harm: OnHarm = None,
    tokens_file: Annotated[
        Path | None, typer.Option(help="Lines `name roles secret`; see `banister token`.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second a token may make; 0: any.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings as TOML; the environment and flags win over it.")
    ] = None,
) -> None:
    """Serve decisions over HTTP, with a live page at /.

    [bold]Example[/]: banister serve shop.banister --port 8080

    [bold]A new store with a promise[/]: banister serve shop.banister --alpha 0.1 --reward-range 0,1

    Every setting can be a line of the TOML file, or a variable such as BANISTER_SERVE_PORT. Without tokens it
    listens on this machine only.
    """
    need(SERVE)
    from banister.serve.server import serve as run
    from banister.serve.settings import ServeSettings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    given: dict[str, Any] = {
        "store": store, "host": host, "port": port, "alpha": alpha, "tokens_file": tokens_file, "rate": rate,
        **draw_settings(reward_range, promise, holdout, on_harm),
    }  # fmt: skip
    settings = ServeSettings.of(given, file=config)
    if not settings.read_tokens():
        typer.echo("banister: no tokens, so only this machine can connect.", err=True)
    run(settings)


@app.command()
def token(
    name: Annotated[str, typer.Argument(help="Whose it is, for logs.")],
    roles: Annotated[str, typer.Option(help="Of decide, reward, read, admin; several with commas.")] = "read",
) -> None:
    """Make a token: the secret for its bearer, and the line to add to the tokens file.

    [bold]Example[/]: banister token shop --roles decide,reward
    """
    need(SERVE)
    from banister.serve.tokens import new_token

    secret, line = new_token(name, roles)
    typer.echo(f"secret: {secret}", err=True)
    typer.echo(line)

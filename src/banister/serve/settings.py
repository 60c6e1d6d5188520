"""What a service is told: from a TOML file, then the environment, then flags; a later one wins."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from banister.errors import SettingError
from banister.serve.tokens import Tokens

PREFIX = "BANISTER_SERVE_"  # of environment variables: BANISTER_SERVE_PORT=8080
FOR_LIFE = ("alpha", "reward_range", "promise", "holdout", "on_harm")
_MB = 1 << 20


class ServeSettings(BaseModel):
    """Settings of a service; each can be a line of TOML, a variable `BANISTER_SERVE_…` or a flag.

    Attributes:
        store: where decisions are kept: a path, or an address of a database.
        alpha: starts a store that is not there yet; one that is there must have been made with it.
        reward_range, promise, holdout, on_harm: of such a store, see `SafeBandit`; a range may be "0,1".
        host, port: where to listen. Without tokens only a loopback address is allowed.
        tokens: lines of tokens, see `banister.serve.tokens`; tokens_file: a file of them.
        max_body: bytes of a request; max_batch: decisions or rewards in one.
        rate: requests a second that one token (or, without tokens, one address) may make on average;
            0: any number. burst: how many at once.
        body_timeout: seconds for a request to arrive, its head and its body each; keep_alive: seconds an
            idle connection stays; stop_timeout: seconds that a stop waits for requests under way.
        max_connections: at one time; more are answered 503.
        refresh: seconds for which a status is reused, at least.

    Examples:
        >>> settings = ServeSettings(store="shop.banister", alpha=0.1, reward_range="0,1")
        >>> settings.host, settings.port, settings.reward_range
        ('127.0.0.1', 8080, (0.0, 1.0))
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str
    alpha: float | None = Field(None, gt=0, lt=1)
    reward_range: tuple[float, float] | None = None
    promise: str | None = None
    holdout: float | None = None
    on_harm: str | None = None
    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    tokens: str = ""
    tokens_file: Path | None = None
    max_body: int = Field(16 * _MB, ge=1024)
    max_batch: int = Field(1000, ge=1)
    rate: float = Field(0.0, ge=0, allow_inf_nan=False)
    burst: int = Field(100, ge=1)
    body_timeout: float = Field(10.0, gt=0, allow_inf_nan=False)
    keep_alive: float = Field(30.0, gt=0, allow_inf_nan=False)
    stop_timeout: float = Field(30.0, gt=0, allow_inf_nan=False)
    max_connections: int = Field(1000, ge=1)
    refresh: float = Field(2.0, gt=0, allow_inf_nan=False)

    @field_validator("reward_range", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Text, as environments hold it."""
        return value.split(",") if isinstance(value, str) else value

    def made_with(self) -> dict[str, Any]:
        """What was given of the settings that belong to a store for life."""
        given = {name: getattr(self, name) for name in FOR_LIFE}
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def of(cls, flags: Mapping[str, Any], *, file: Path | None = None, env: Any = os.environ) -> Self:
        """Settings from all three places; flags that are None were not given.

        Examples:
            >>> env = {"BANISTER_SERVE_PORT": "9000", "BANISTER_SERVE_HOST": "::1"}
            >>> settings = ServeSettings.of({"store": "shop.banister", "port": 9001, "host": None}, env=env)
            >>> settings.port, settings.host
            (9001, '::1')
        """
        flagged = {name: _Told(value, "") for name, value in flags.items() if value is not None}
        told = {**_from_file(file), **_from_environment(env), **flagged}
        try:
            return cls(**{name: given.value for name, given in told.items()})
        except ValidationError as reason:
            raise SettingError(_said(reason, told)) from None

    def read_tokens(self) -> Tokens:
        """All tokens; without any, an error unless only this machine can connect."""
        tokens = Tokens.read(self.tokens, self.tokens_file)
        if not tokens and not self.is_loopback:
            raise SettingError(
                f"host={self.host!r} can be reached from other machines and there are no tokens; make some "
                "with `banister token` and give them with --tokens-file, or listen on 127.0.0.1."
            )
        return tokens

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class _Told(NamedTuple):
    """A value, and words for where it was found."""

    value: Any
    where: str


def _from_file(file: Path | None) -> dict[str, _Told]:
    if file is None:
        return {}
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as reason:
        raise SettingError(f"{str(file)!r} cannot be read ({reason.strerror}).") from None
    except ValueError as reason:
        raise SettingError(f"{str(file)!r} is not TOML ({reason}).") from None
    return {name: _Told(value, f" in {str(file)!r}") for name, value in found.items()}


def _from_environment(env: Mapping[str, str]) -> dict[str, _Told]:
    """Variables that hold something: an empty one is how many tools leave a variable out."""
    ours = (name for name in env if name.startswith(PREFIX) and env[name])
    return {name.removeprefix(PREFIX).lower(): _Told(env[name], f" from {name}") for name in ours}


def _said(reason: ValidationError, told: Mapping[str, _Told]) -> str:
    """One mistake, in our words."""
    # A name that is misspelt leaves the right one missing: it is told first.
    mistake = min(reason.errors(), key=lambda m: m["type"] != "extra_forbidden")
    name = str(mistake["loc"][0])
    if name not in told:
        return f"{name} is missing: say where decisions are kept, such as shop.banister."
    value, where = told[name]
    if mistake["type"] == "extra_forbidden":
        known = ", ".join(sorted(ServeSettings.model_fields))
        return f"{name!r}{where} is no setting of a service; there are {known}."
    if name == "reward_range":
        return f"{name}={value!r}{where}: give the lowest and the highest reward there is, such as 0,1."
    return f"{name}={value!r}{where}: {mistake['msg'][0].lower()}{mistake['msg'][1:]}."

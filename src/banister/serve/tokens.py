"""Who may do what: tokens with roles, compared in constant time.

A line names a token, its roles and its secret, or the secret's hash:

```
shop      decide,reward   sha256:5e88…
wall      read            correct-horse-battery-staple
operator  admin           sha256:9f86…
```
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, get_args

from banister.errors import SettingError

Role = Literal["decide", "reward", "read", "admin"]  # admin may do everything
ROLES: tuple[str, ...] = get_args(Role)
_SHORTEST = 16  # characters of a secret: shorter ones can be guessed over a network
_HASHED = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Token:
    """A name for logs, what its bearer may do, and the hash of its secret."""

    name: str
    roles: frozenset[str]
    digest: bytes

    def may(self, role: Role) -> bool:
        """Whether the bearer may do what needs this role."""
        return role in self.roles or "admin" in self.roles

    @classmethod
    def of_line(cls, line: str, where: str) -> Self:
        """A token from its line.

        Examples:
            >>> token = Token.of_line("wall read correct-horse-battery", "line 1")
            >>> token.name, token.may("read"), token.may("decide")
            ('wall', True, False)
        """
        parts = line.split()
        if len(parts) != 3:
            raise SettingError(f"{where}: a token is a name, roles and a secret; it has {len(parts)} parts.")
        name, roles, secret = parts
        unknown = sorted(set(roles.split(",")) - set(ROLES))
        if unknown:
            raise SettingError(f"{where}: {unknown[0]!r} is no role; there are {', '.join(ROLES)}.")
        return cls(name, frozenset(roles.split(",")), _digest_of(secret, where))


class Tokens:
    """All tokens of a service."""

    def __init__(self, tokens: list[Token]) -> None:
        self._all = tokens

    def __bool__(self) -> bool:
        return bool(self._all)

    @classmethod
    def read(cls, lines: str, file: Path | None = None) -> Self:
        """Tokens from lines (also separated by `;`) and from a file."""
        found = _tokens(lines.replace(";", "\n"), "tokens")
        if file is not None:
            try:
                found += _tokens(file.read_text(encoding="utf-8"), str(file))
            except (OSError, UnicodeDecodeError) as reason:
                raise SettingError(f"tokens_file={str(file)!r} cannot be read ({reason}).") from None
            if not found:
                raise SettingError(f"tokens_file={str(file)!r} holds no token; make one: banister token.")
        _refuse_shared(found)
        return cls(found)

    def bearer(self, header: bytes | None) -> Token | None:
        """Whose an `Authorization` header is; every token is compared, so that time tells nothing."""
        scheme, _, secret = (header or b"").partition(b" ")
        given = hashlib.sha256(secret.strip()).digest()
        found = None
        for token in self._all:
            if hmac.compare_digest(token.digest, given):
                found = token
        return found if scheme.lower() == b"bearer" else None


def new_token(name: str, roles: str) -> tuple[str, str]:
    """A secret, and the line to keep of it, which does not tell it."""
    if len(name.split()) != 1:
        raise SettingError(f"name={name!r} is not possible: a token's name is one word.")
    secret = secrets.token_urlsafe(32)
    line = f"{name} {roles} sha256:{hashlib.sha256(secret.encode()).hexdigest()}"
    Token.of_line(line, "the new token")
    return secret, line


def _tokens(text: str, where: str) -> list[Token]:
    numbered = enumerate(text.splitlines(), start=1)
    used = [(n, line.strip()) for n, line in numbered if line.strip() and not line.strip().startswith("#")]
    return [Token.of_line(line, f"{where}, line {n}") for n, line in used]


def _refuse_shared(tokens: list[Token]) -> None:
    """Two tokens with one secret: whose roles its bearer has would be a matter of their order."""
    owners: dict[bytes, str] = {}
    for token in tokens:
        if token.digest in owners:
            both = f"{owners[token.digest]!r} and {token.name!r}"
            raise SettingError(f"the tokens {both} have the same secret; give each its own.")
        owners[token.digest] = token.name


def _digest_of(secret: str, where: str) -> bytes:
    hashed = _HASHED.fullmatch(secret)
    if hashed:
        return bytes.fromhex(hashed[1])
    if secret.startswith("sha256:"):
        raise SettingError(f"{where}: sha256: is followed by 64 hexadecimal digits.")
    if len(secret) < _SHORTEST:
        raise SettingError(f"{where}: the secret has {len(secret)} characters; give at least {_SHORTEST}.")
    return hashlib.sha256(secret.encode()).digest()

"""API keys say who may do what on which models. A JSON file contains the digests of the keys, never the keys.

A key is 256 random bits, too many to guess. So a slow password hash would not make a key safer: inverting one SHA-256
is as hard as guessing the key. The digest costs each request only a microsecond. Digests are compared in constant time.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TextIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hinged.answers import ROLES, Role
from hinged.disk import put_in_place
from hinged.operations.base import EVERY
from hinged.service import limits
from hinged.service.errors import Conflict, Invalid, NotFound, Unauthenticated, Unavailable

log = logging.getLogger(__name__)

PREFIX = "hinged_"
"""Beginning of every key, by which people and secret scanners recognise a leaked key."""


KeyName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]*$")]
Pattern = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?\*?$", min_length=1)]
_STRICT = ConfigDict(extra="forbid", frozen=True)


class Key(BaseModel):
    """A key in the file: its owner's name, its role, its models and its digest."""

    model_config = _STRICT

    name: KeyName
    role: Role
    models: Annotated[tuple[Pattern, ...], Field(min_length=1)] = (EVERY,)
    created_at: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    def plays(self, role: Role) -> bool:
        """Return whether the key may do everything that a role may do."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def covers(self, model: str) -> bool:
        """Return whether the key is for a model. EVERY means all models."""
        return any(model == p or (p.endswith("*") and model.startswith(p[:-1])) for p in self.models)


NOBODY_ASKED = Key(name="everyone", role="admin", created_at="", sha256="0" * 64)
"""The key of every caller of a server without keys."""


class KeyFile(BaseModel):
    """The form of the key file."""

    model_config = _STRICT

    version: Literal[1] = 1
    keys: tuple[Key, ...] = ()

    @field_validator("keys")
    @classmethod
    def _each_name_once(cls, keys: tuple[Key, ...]) -> tuple[Key, ...]:
        for name, number in Counter(key.name for key in keys).items():
            if number > 1:
                raise ValueError(f"two keys have the name {name!r}")
        return keys


def digest(text: str) -> str:
    """Return the digest of a key's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def read_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys of a file. Raise Invalid if the content is invalid, OSError if the file cannot be read."""
    try:
        return KeyFile.model_validate_json(path.read_bytes()).keys
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise Invalid(f"{path} is not a valid key file: {where}{': ' if where else ''}{problem['msg']}") from None


class Keyring:
    """The keys of a file. The file is read again whenever it changes, so that revoking a key needs no restart.

    If the file is missing or invalid, every request is refused. Otherwise a mistake in an editor could keep a revoked
    key valid.
    """

    def __init__(self, path: Path) -> None:
        """Read the file. Raise Invalid if that fails."""
        self.path = path
        self._stamp = self._stamp_now()
        try:
            self._keys: tuple[Key, ...] | None = read_keys(path)
        except OSError as error:
            raise Invalid(f"the key file {path} cannot be read: {error.strerror}") from None
        if not self._keys:
            log.warning("%s holds no keys: nobody will be let in", path)

    def find(self, text: str) -> Key | None:
        """Return the key with this text, or None. Raise Unavailable while the file cannot be read."""
        asked = digest(text)
        found = None
        for key in self.keys():  # always compare all keys, so that the time does not depend on the key
            if hmac.compare_digest(key.sha256, asked):
                found = key
        return found

    def keys(self) -> tuple[Key, ...]:
        """Return the keys that are now in the file. Raise Unavailable while the file cannot be read."""
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._keys = read_keys(self.path)
                log.info("%s changed and holds %d keys", self.path, len(self._keys))
            except (OSError, Invalid) as error:
                self._keys = None
                log.error("nobody is let in: %s", error)  # noqa: TRY400 - the message suffices
        if self._keys is None:
            raise Unavailable("the key file of this server cannot be read; its log says why")
        return self._keys

    def changeable(self) -> bool:
        """Return whether this process may replace the file."""
        return os.access(self.path.resolve().parent, os.W_OK)

    def _stamp_now(self) -> tuple[int, ...]:
        """Return a value that changes whenever the file changes; () if there is no file."""
        try:
            stat = self.path.stat()
        except OSError:
            return ()
        return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_size


def create_key(path: Path, name: str, role: Role, models: tuple[str, ...] = (EVERY,), *, by: Key | None = None) -> str:
    """Add a key to a file; create the file if it is missing. Return the text of the key, which is saved nowhere.

    by: the key that makes it. Raise Unauthenticated if the file no longer has that key.
    """
    text = PREFIX + secrets.token_urlsafe(32)
    try:
        key = Key(
            name=name,
            role=role,
            models=models,
            created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            sha256=digest(text),
        )
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise Invalid(f"{problem['loc'][0]}: {problem['msg']}, got {problem['input']!r}") from None
    with _edited(path, by) as keys:
        if any(key.name == other.name for other in keys):
            raise Conflict(f"there is a key named {name!r} already: revoke it first, or take another name")
        if len(keys) >= limits.KEYS_MAX:
            raise Conflict(f"at most {limits.KEYS_MAX} keys are allowed: revoke keys that nobody uses")
        keys.append(key)
    return text


def revoke_key(path: Path, name: str, *, by: Key | None = None) -> None:
    """Remove a key from a file. Raise NotFound if the file has no such key. by: as in `create_key`."""
    with _edited(path, by) as keys:
        kept = [key for key in keys if key.name != name]
        if len(kept) == len(keys):
            raise NotFound(f"there is no key named {name[:64]!r}")
        keys[:] = kept


@contextmanager
def _edited(path: Path, by: Key | None) -> Iterator[list[Key]]:
    """Yield the keys of a file, then replace the file by a file with these keys. by: as in `create_key`.

    The file is replaced as a whole or not changed, and only its owner may read it. The new file is locked, until its
    process ends. So changes wait for each other, and what a killed change has left does not matter.
    """
    path = path.resolve()  # if the path is a link, its target is replaced
    new = path.with_name(path.name + ".new")
    try:
        while (file := _locked(new)) is None:
            pass
    except OSError as error:
        raise Unavailable(f"{new} cannot be written: {error.strerror}") from None
    try:
        with file:
            try:
                keys = _keys_for(path, by)
                yield keys
                file.write(KeyFile(keys=tuple(keys)).model_dump_json(indent=2) + "\n")
                file.flush()
                put_in_place(new, path)
            except BaseException:
                if _is_at(file.fileno(), new):  # otherwise the new file is already in place
                    new.unlink()
                raise
    except OSError as error:  # closing a file writes what it could not write before
        raise Unavailable(f"{path} cannot be replaced durably: {error.strerror}") from None


def _keys_for(path: Path, by: Key | None) -> list[Key]:
    keys = [*read_keys(path)] if path.exists() else []
    if by is not None and by not in keys:  # another change has revoked it meanwhile
        raise Unauthenticated("this key was revoked")
    return keys


def _locked(new: Path) -> TextIO | None:
    """Wait for the new file, and return it empty; None if another change has put it in place meanwhile."""
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if not _is_at(descriptor, new):
        os.close(descriptor)
        return None
    os.fchmod(descriptor, 0o600)
    os.ftruncate(descriptor, 0)
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False

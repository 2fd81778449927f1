"""What `taskshim check` warns of: a config that is good, but not for production."""

import contextlib
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from shim.cli.ledger_file import LedgerFileError, reading
from shim.config import Config
from shim.config.address import is_loopback
from shim.config.secret_files import api_keys
from shim.fronts.guard import Guard
from shim.shadow.shadow import is_named

_ANYONE = stat.S_IRWXO
_ANYONE_ELSE = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Checked:
    """What is looked at."""

    config: Config
    file: Path | None
    """The config file."""
    today: date
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each upstream says of its tools, their `annotations` by name; empty where none was asked."""


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of warning, known by the key of the config that it is about."""

    key: str
    when: str
    """What is warned of, for people."""
    find: Callable[[Checked], Iterator[str]]


def warnings_of(checked: Checked) -> Iterator[tuple[str, str]]:
    """Give what there is to warn of: the key of the check and the line."""
    for check in CHECKS:
        for text in check.find(checked):
            yield check.key, f"{check.key}: {text}"


def _no_source(it: Checked) -> Iterator[str]:
    if not it.config.identity.sources:
        yield "empty, so a bearer token is its caller, and a refreshed one a new caller (OWN-ID)"


def _anonymous(it: Checked) -> Iterator[str]:
    if it.config.identity.sources and it.config.identity.serves_anonymous:
        yield "who brings no credential is served, and all of them are one caller"


def _unjudged(it: Checked) -> Iterator[str]:
    sources = it.config.identity.sources
    if (not sources or "token" in sources) and all(one.credentials != "pass" for one in it.config.upstream):
        yield 'no upstream has "pass", so nobody judges a client\'s token: any text is a caller (OWN-VOUCH)'


def _proxies(it: Checked) -> Iterator[str]:
    if "header" in it.config.identity.sources:
        for network in it.config.identity.header.trusted_proxies:
            if not network.is_private:
                yield f"{network} is no private network: whoever sends from there is whom they say they are"


def _audience(it: Checked) -> Iterator[str]:
    identity = it.config.identity
    if "introspection" in identity.sources and not identity.introspection.audience:
        yield "not set, so tokens that the provider gave out for other servers count too"


def _hosts(it: Checked) -> Iterator[str]:
    if not Guard(it.config).checks_host:
        yield (
            f"empty, and listen.host, {it.config.listen.host}, is no loopback address: "
            "the Host header is not checked (ORIGIN)"
        )


def _admin(it: Checked) -> Iterator[str]:
    admin = it.config.admin
    if admin.enabled and not is_loopback(admin.host):
        yield f"{admin.host} is no loopback address, and looking asks for no credential: keep others off it"


def _dialects(it: Checked) -> Iterator[str]:
    for one in it.config.upstream:
        if one.dialect == "auto":
            yield f"{one.name!r} is probed at each start: name what `taskshim probe` says of it"


def _clear(it: Checked) -> Iterator[str]:
    for one in it.config.upstream:
        parts = urlsplit(one.url)
        if parts.scheme == "http" and one.credentials != "none" and not is_loopback(parts.hostname or ""):
            yield f"credentials go to {one.url} in the clear: use https"


def _audit(it: Checked) -> Iterator[str]:
    if it.config.audit.path is None:
        yield "not set, so there will be no audit log"
    else:
        yield from _own_file(it.config.audit.path)


def _synchronous(it: Checked) -> Iterator[str]:
    if it.config.ledger.synchronous != "full":
        yield "a power cut loses the handles of the last moments"


def _store_results(it: Checked) -> Iterator[str]:
    if it.config.ledger.store_results:
        return
    if it.config.tasks.promote:
        yield "results of the tools in tasks.promote are gone with a restart: no server has them (DUR-8)"
    with contextlib.suppress(LedgerFileError), reading(it.config.ledger.path) as file:
        if file.may_hold_payloads():
            yield f"{it.config.ledger.path} has results: the next start takes them out, for good (DUR-8)"


def _sunset(it: Checked) -> Iterator[str]:
    day = it.config.cutover.sunset
    if day is not None and day < it.today and it.config.cutover.after_sunset != "refuse":
        yield f"{day} is over, and the old API is still served (cutover.after_sunset)"


def _shadowed(it: Checked) -> Iterator[str]:
    shadow = it.config.cutover.shadow
    for one in it.config.upstream:
        if shadow.tools and shadow.upstream in {None, one.name} and one.credentials == "pass":
            yield f"copies go to {one.name!r} without a credential: if it wants one, give it a service token"


def _copied(it: Checked) -> Iterator[str]:
    """Hold the tools whose calls are copied against what the servers say of them (SHADOW)."""
    named = it.config.cutover.shadow.tools
    for upstream, tools in it.tools.items():
        for name, said in tools.items():
            if not is_named(named, name):
                continue
            hints = said if isinstance(said, dict) else {}
            if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True:
                continue
            says = (
                "that it is destructive" if hints.get("destructiveHint") is True else "not that it only reads"
            )
            yield f"{name!r} is named, and {upstream!r} says {says}"
    for one in named:
        if it.tools and not any(is_named((one,), name) for tools in it.tools.values() for name in tools):
            yield f"{one!r} names no tool of any upstream"


def _adopting(it: Checked) -> Iterator[str]:
    until = it.config.ownership.adopt_until
    if until is not None and until.date() < it.today:
        yield f"{until:%Y-%m-%d} is over: take it out"


def _ledger(it: Checked) -> Iterator[str]:
    yield from _own_file(it.config.ledger.path)


def _keys(it: Checked) -> Iterator[str]:
    yield from _own_file(it.config.identity.key_file)


def _audit_keys(it: Checked) -> Iterator[str]:
    if it.config.audit.key_file is not None:
        yield from _own_file(it.config.audit.key_file)


def _secret_files(it: Checked) -> Iterator[str]:
    identity = it.config.identity
    if "api_key" in identity.sources and identity.api_key.file is not None and not api_keys(identity.api_key):
        yield f"{identity.api_key.file} holds no key, so nobody gets in: write a line `name = key`"
    own = (identity.api_key.file, identity.introspection.client_secret_file)
    for named in (*own, *(one.service_token_file for one in it.config.upstream)):
        if named is not None:
            yield from _open_to(named, _ANYONE)


def _config_file(it: Checked) -> Iterator[str]:
    if it.file is not None and _holds_secrets(it.config):
        yield from (f"it holds secrets, and {fault}" for fault in _open_to(it.file, _ANYONE))


CHECKS = (
    Check("identity.sources", "no source: nobody but a token or a session says who is calling", _no_source),
    Check("identity.anonymous", "who brings no credential is served", _anonymous),
    Check("upstream.credentials", "tokens of clients that no upstream judges", _unjudged),
    Check("identity.header.trusted_proxies", "a header is believed from public networks", _proxies),
    Check("identity.introspection.audience", "tokens for other servers count", _audience),
    Check("listen.allowed_hosts", "the Host header is not checked", _hosts),
    Check("admin.host", "the admin address is public", _admin),
    Check("upstream.url", "credentials over plain http to another machine", _clear),
    Check("upstream.dialect", "not named, so found out at each start", _dialects),
    Check("audit.path", "no audit log; or the file, or its folder, is open to others", _audit),
    Check("audit.key_file", "the keys, or their folder, are open to others", _audit_keys),
    Check("ledger.path", "the ledger, or its folder, is open to others", _ledger),
    Check("ledger.synchronous", "a power cut may lose handles", _synchronous),
    Check(
        "ledger.store_results",
        "the next start takes what is in the file out of it, or what only the shim has goes with it",
        _store_results,
    ),
    Check("identity.key_file", "the keys, or their folder, are open to others", _keys),
    Check("identity.api_key.file", "a file of secrets, of any section, is open to all; empty", _secret_files),
    Check("config", "the config file holds secrets and is open to everyone", _config_file),
    Check("cutover.sunset", "the day is over", _sunset),
    Check("cutover.shadow", "copies go without a credential to a server that may want one", _shadowed),
    Check("cutover.shadow.tools", "a named tool that by its server's word does not only read", _copied),
    Check("ownership.adopt_until", "the time is over", _adopting),
)  # fmt: skip


def _own_file(path: Path) -> Iterator[str]:
    """Warn of a file of the shim's own that anyone else has a right to."""
    yield from _open_to(path, _ANYONE_ELSE)
    folder = _mode(path.parent)
    sticky = folder & stat.S_ISVTX and _mode(path)  # which keeps what is there, not what is still to be made
    if folder & stat.S_IWOTH and not sticky:
        yield f"anyone may put another file, or a link, at {path}: use a folder that is not open to all"


def _open_to(path: Path, those: int) -> Iterator[str]:
    if _mode(path) & those:
        yield f"others can read {path}: chmod {'600' if those == _ANYONE_ELSE else 'o-rwx'} it"


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _holds_secrets(value: Any) -> bool:
    match value:
        case SecretStr():
            return True
        case BaseModel():
            return any(_holds_secrets(one) for _, one in value)
        case tuple():
            return any(map(_holds_secrets, value))
        case dict():
            return any(map(_holds_secrets, value.values()))
    return False

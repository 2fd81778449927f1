"""`taskshim check` on who is calling: files, and with --online what the providers answer."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shim.cli.check import check
from shim.config.show import toml_value
from tests.provider import SECRET, Answer, Provider
from tests.scripted import Scripted

pytestmark = pytest.mark.rule("OWN-ID")

Checked = Callable[..., Any]


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upstream: Scripted) -> Checked:
    """Give a function that checks a config with an `[identity]`, as the provider of the tests gives it."""
    monkeypatch.chdir(tmp_path)
    upstream.on("tools/list", {"tools": []})

    async def run(identity: dict[str, Any], *flags: str) -> Result:
        tables = {"": {"sources": identity["sources"]}} | {
            f".{name}": table for name, table in identity.items() if name != "sources"
        }
        lines = [f'[[upstream]]\nurl = "{upstream.url}"\ndialect = "experimental"\n']
        for name, table in tables.items():
            lines.append(f"[identity{name}]")
            lines += [f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None]
        path = tmp_path / "config.toml"
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o600)
        return await asyncio.to_thread(CliRunner().invoke, check, ["--config", str(path), *flags])

    return run


async def test_providers_that_answer_are_fine(checked: Checked, provider: Provider) -> None:
    both = provider.jwt() | provider.introspection()
    identity = {**provider.jwt(), **both, "sources": ["jwt", "introspection"]}
    result = await checked(identity, "--online")
    assert result.exit_code == 0, result.output
    assert f"[identity.jwt]\n{provider.url}/jwks: 1 of 1 key for RS256, ES256\n" in result.stdout
    assert f"[identity.introspection]\n{provider.url}/introspect: answers\n" in result.stdout
    assert SECRET not in result.output


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer(b"", 503), "HTTP 503"),
        (Answer(b"", 301, {"Location": "/"}), "HTTP 301: redirects are not followed, name the final address"),
        (Answer(b"<html>"), "it is no JSON object"),
        (Answer(b'{"keys": [{"kty": "oct", "k": "AA"}]}'), "it has no public key for signatures"),
    ],
)
async def test_keys_that_cannot_be_had_are_a_fault(
    checked: Checked, provider: Provider, answer: Answer, fault: str
) -> None:
    provider.keys_answer = answer
    result = await checked(provider.jwt(), "--online")
    assert result.exit_code == 1
    assert f"fault: identity.jwt: {provider.url}/jwks: {fault}" in result.stderr


async def test_keys_for_other_algorithms_are_a_fault(checked: Checked, provider: Provider) -> None:
    result = await checked(provider.jwt(algorithms=["PS256"]), "--online")
    assert result.exit_code == 1
    assert "0 of 1 key for PS256" in result.stderr


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer(b"", 401), "HTTP 401"),
        (Answer(b"{}"), 'no JSON object with "active"'),
        (Answer(b'{"active": true}'), "calls a token active that it never gave out"),
    ],
)
async def test_introspection_that_does_not_work_is_a_fault(
    checked: Checked, provider: Provider, answer: Answer, fault: str
) -> None:
    provider.introspection_answer = answer
    result = await checked(provider.introspection(), "--online")
    assert result.exit_code == 1
    assert f"fault: identity.introspection: {provider.url}/introspect: {fault}" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("jwks_file", None, "identity.jwt.jwks_file: here cannot be read"),
        ("jwks_file", "{}", 'identity.jwt.jwks_file: here: it has no list "keys"'),
        ("client_secret_file", None, "identity.introspection.client_secret_file: here cannot be read"),
        ("client_secret_file", "a\nb", "identity.introspection.client_secret_file: here must hold one line"),
    ],
)
async def test_a_file_that_cannot_be_used_is_one_line(
    checked: Checked, provider: Provider, tmp_path: Path, name: str, content: str | None, line: str
) -> None:
    if content is not None:
        (tmp_path / "here").write_text(content)
    identity = (
        provider.jwt(jwks_url=None, jwks_file="here")
        if name == "jwks_file"
        else provider.introspection(client_secret=None, client_secret_file="here")
    )
    result = await checked(identity)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"taskshim: {line}")
    assert result.stderr.count("\n") == 1


async def test_a_file_of_keys_is_fine_without_a_provider(
    checked: Checked, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "here").write_text(json.dumps({"keys": provider.listed}))
    assert (await checked(provider.jwt(jwks_url=None, jwks_file="here"), "--online")).exit_code == 0
    assert provider.fetches == 0

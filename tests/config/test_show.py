"""The effective config as text, and the files it points to."""

import tomllib

import pytest

from shim.config import Config, ConfigError, api_keys, changed_keys, digest, digest_of, service_token, show

SECRETS = {
    "upstream": [
        {
            "url": "http://h/mcp",
            "credentials": "service",
            "service_token": "S3CRET",
            "headers": {"X-Site": "S3CRET"},
            "tool_support": {"*": "optional"},
        }
    ],
    "identity": {"sources": ["api_key"], "api_key": {"keys": {"anna": "S3CRET"}}},
}


@pytest.mark.rule("OWN-STORE")
def test_secrets_are_masked_wherever_a_config_is_printed():
    config = Config.model_validate(SECRETS)
    for text in (show(config), repr(config), str(config), config.model_dump_json()):
        assert "S3CRET" not in text
    assert '"anna" = "********"' in show(config)
    assert config.upstream[0].fixed_headers() == {"X-Site": "S3CRET"}


def test_what_is_shown_is_toml_and_says_what_is_set():
    shown = tomllib.loads(show(Config.model_validate(SECRETS)))
    assert shown["listen"]["port"] == 8765
    assert shown["upstream"][0]["tool_support"] == {"*": "optional"}
    assert shown["identity"]["header"]["trusted_proxies"] == ["127.0.0.1/32"]
    assert str(shown["cutover"]["deprecation"]) == "2026-07-28"


def test_a_shown_config_without_secrets_reads_back_the_same():
    config = Config.model_validate(
        {"upstream": [{"url": "http://h/mcp", "name": 'b"ü\\'[:1]}], "log": {"level": "debug"}}
    )
    assert Config.model_validate(tomllib.loads(show(config))) == config


def test_changes_are_named_secrets_too_and_the_digest_has_no_part_of_them():
    old = Config.model_validate(SECRETS)
    new = Config.model_validate(
        SECRETS
        | {
            "log": {"level": "debug"},
            "identity": {"sources": ["api_key"], "api_key": {"keys": {"anna": "NEW"}}},
        }
    )
    secret_only = Config.model_validate(
        SECRETS | {"identity": {"sources": ["api_key"], "api_key": {"keys": {"anna": "NEW"}}}}
    )
    assert changed_keys(old, new) == ("identity.api_key.keys", "log.level")
    assert digest(old) != digest(new)
    assert digest(old) == digest(secret_only)


def test_a_token_file_is_read_and_trimmed(tmp_path):
    path = tmp_path / "token"
    path.write_text("abc.def\n")
    one = {"url": "http://h", "credentials": "service", "service_token_file": path}
    assert service_token(Config.model_validate({"upstream": [one]}).upstream[0]) == "abc.def"
    assert service_token(Config.model_validate({"upstream": [{"url": "http://h"}]}).upstream[0]) is None


@pytest.mark.parametrize("content", [None, "", "two words", "\x80"])
def test_a_bad_token_file_is_one_line(tmp_path, content):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    one = {"url": "http://h", "credentials": "service", "service_token_file": path}
    with pytest.raises(ConfigError, match=r"^upstream\.service_token_file: "):
        service_token(Config.model_validate({"upstream": [one]}).upstream[0])


def test_the_key_file_adds_to_the_keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# people\n\nbob = k=2\n")
    section = Config.model_validate(
        {"identity": {"api_key": {"keys": {"anna": "k1"}, "file": path}}}
    ).identity
    assert api_keys(section.api_key) == {"anna": digest_of("k1"), "bob": digest_of("k=2")}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("bob k2\n", r":1: expected a line `name = key`"),
        ("\nbob =\n", r":2: expected a line `name = key`"),
        ("anna = k3\n", r":1: 'anna' has a key already"),
        ("bob = k1\n", r"^identity\.api_key: two names have the same key"),
    ],
)
def test_a_bad_key_file_is_one_line_without_a_key(tmp_path, content, expected):
    path = tmp_path / "keys"
    path.write_text(content)
    section = Config.model_validate(
        {"identity": {"api_key": {"keys": {"anna": "k1"}, "file": path}}}
    ).identity
    with pytest.raises(ConfigError, match=expected) as caught:
        api_keys(section.api_key)
    assert not {"k1", "k2", "k3"} & set(str(caught.value).split())

"""Reading the config: what weighs more, and that every fault is one clear line."""

from pathlib import Path

import pytest

from shim.config import ConfigError, load_config

UPSTREAM = '[[upstream]]\nurl = "http://127.0.0.1:3000/mcp"\n'


@pytest.fixture
def load(tmp_path, monkeypatch):
    def load(text=UPSTREAM, env=None, overrides=None, **more):
        monkeypatch.chdir(tmp_path)
        path = Path("t.toml")
        path.write_text(text)
        return load_config(path, env or {}, overrides or {}, **more)

    return load


def test_defaults_then_file_then_environment_then_flags(load):
    text = UPSTREAM + '[listen]\nhost = "10.0.0.1"\nport = 1000\npath = "/here"\n'
    env = {"TASKSHIM_LISTEN_PORT": "2000", "TASKSHIM_LISTEN_PATH": "/there"}
    config = load(text, env, {"listen": "[::1]:3000", "ledger": None, "audit": "a.jsonl"})
    assert (config.listen.host, config.listen.port, config.listen.path) == ("::1", 3000, "/there")
    assert str(config.audit.path) == "a.jsonl"
    assert str(config.ledger.path) == "taskshim.db"


def test_no_file_is_needed():
    config = load_config(None, {"TASKSHIM_UPSTREAM_NAME": "b"}, {"upstream": "http://h/mcp"})
    assert [(one.name, one.url) for one in config.upstream] == [("b", "http://h/mcp")]


@pytest.mark.parametrize(
    ("name", "value", "dotted", "expected"),
    [
        ("LISTEN_ALLOWED_ORIGINS", "http://a.example, http://b.example", "listen.allowed_origins", 2),
        ("LISTEN_ALLOWED_ORIGINS", '["http://a.example"]', "listen.allowed_origins", 1),
        ("IDENTITY_SOURCES", "token", "identity.sources", 1),
        ("IDENTITY_API_KEY_KEYS", '{ anna = "k1", bob = "k2" }', "identity.api_key.keys", 2),
    ],
)
def test_variables_hold_lists_and_tables(load, name, value, dotted, expected):
    found = load(env={f"TASKSHIM_{name}": value})
    for part in dotted.split("."):
        found = getattr(found, part)
    assert len(found) == expected


@pytest.mark.parametrize("value", ["false", "0", "no"])
def test_variables_hold_truth(load, value):
    assert load(env={"TASKSHIM_ADMIN_ENABLED": value}).admin.enabled is False


@pytest.mark.parametrize(
    "name",
    ["TASKSHIM_PORT", "TASKSHIM_PORT_8765_TCP_ADDR", "TASKSHIM_SERVICE_HOST", "TASKSHIM_PEERS", "PATH"],
)
def test_variables_that_are_not_ours_are_left_alone(load, name):
    assert load(env={name: "tcp://10.0.0.1:8765", "TASKSHIM_LISTEN_PORT": ""}).listen.port == 8765


_TWO = UPSTREAM + "[[upstream]]\nurl = 'http://b'\nname = 'b'\n"
_MISTYPED = "TASKSHIM_LISTEN_PRT: no key has this variable; did you mean TASKSHIM_LISTEN_PORT?"

FAULTS = [
    ("[listen]\nprot = 1\n", "t.toml:4: listen.prot: unknown key; did you mean listen.port?"),
    ("[listen]\n\n# x\nport = 70000\n", "t.toml:6: listen.port: must be less than or equal to 65535"),
    ("[identty]\n", "t.toml:3: identty: unknown key; did you mean identity?"),
    ("[listen]\nkey_file = 'x'\n", "t.toml:4: listen.key_file: unknown key; did you mean identity.key_file?"),
    ("[listen]\nzzzz = 1\n", "t.toml:4: listen.zzzz: unknown key"),
    ("listn = 3\n", "t.toml:3: upstream[0].listn: unknown key"),
    ("[[upstream]]\nname = 'b'\n", "t.toml:3: upstream[1]: needs either url or command"),
    (
        "[[upstream]]\ncommand = ['x']\nurl = 'http://x'\n",
        "t.toml:3: upstream[1]: needs either url or",
    ),
    (
        "[[upstream]]\ncommand = ['x']\ncredentials = 'pass'\n",
        "t.toml:3: upstream[1]: a command has no",
    ),
    (
        "[[upstream]]\ncommand = ['x']\nheaders = {A = 'b'}\n",
        "t.toml:3: upstream[1]: a command has no",
    ),
    (
        "[[upstream]]\ncommand = ['x']\nsessions = false\n",
        "t.toml:3: upstream[1]: sessions = false",
    ),
    (
        "[[upstream]]\nname = 'b'\ncommand = ['']\n",
        "t.toml:5: upstream[1].command[0]: must have at least 1 character",
    ),
    ("[[upstream]]\nname = 'b'\nurl = 'ftp://x'\n", "t.toml:5: upstream[1].url: must be an http:// or"),
    ("[[upstream]]\nurl = 'http://u:p@x'\n", "t.toml:4: upstream[1].url: must not hold a user or password"),
    ("[[upstream]]\nurl = 'http://x'\n", "t.toml: upstream: two of them have the same name"),
    (
        "[identity]\nsources = ['jwt']\n",
        't.toml:3: identity: sources names "jwt": identity.jwt.issuer is missing',
    ),
    (
        "[identity]\nsources = ['jwt']\n[identity.jwt]\nissuer = 'i'\n",
        't.toml:3: identity: sources names "jwt": identity.jwt.audience is missing',
    ),
    (
        "[identity]\nsources = ['jwt']\n[identity.jwt]\nissuer = 'i'\naudience = ['a']\n",
        't.toml:3: identity: sources names "jwt": identity.jwt needs either jwks_url or jwks_file',
    ),
    ("[identity.jwt]\nalgorithms = ['HS256']\n", "t.toml:4: identity.jwt.algorithms[0]: must be 'RS256'"),
    ("[admin]\ntoken = 'short'\n", "t.toml:4: admin.token: must have at least 16 characters"),
    ("[identity.jwt]\ncaller = []\n", "t.toml:4: identity.jwt.caller: must have at least 1 item"),
    ("[identity.jwt]\nalgorithms = ['none']\n", "t.toml:4: identity.jwt.algorithms[0]: must be 'RS256'"),
    ("[identity.jwt]\nalgorithms = []\n", "t.toml:4: identity.jwt.algorithms: "),
    (
        "[identity.jwt]\njwks_url = 'http://idp.example/jwks'\n",
        "t.toml:4: identity.jwt.jwks_url: must be https",
    ),
    (
        "[identity.jwt]\njwks_url = 'http://169.254.169.254/'\n",
        "t.toml:4: identity.jwt.jwks_url: must be https",
    ),
    ("[identity.jwt]\njwks_url = 'file:///etc/passwd'\n", "t.toml:4: identity.jwt.jwks_url: must be an http"),
    ("[identity.jwt]\nleeway_ms = 900000\n", "t.toml:4: identity.jwt.leeway_ms: "),
    (
        "[identity.jwt]\njwks = 'x'\n",
        "t.toml:4: identity.jwt.jwks: unknown key; did you mean identity.jwt.jwks_",
    ),
    (
        "[identity]\nsources = ['introspection']\n",
        't.toml:3: identity: sources names "introspection": identity.introspection.url is missing',
    ),
    (
        (
            "[identity]\nsources = ['introspection']\n"
            "[identity.introspection]\nissuer = 'i'\nurl = 'https://x'\n"
        ),
        't.toml:3: identity: sources names "introspection": identity.introspection needs client_secret or',
    ),
    (
        "[identity.introspection]\nclient_secret = 'a'\nclient_secret_file = 'b'\n",
        "t.toml:3: identity.introspection: client_secret and client_secret_file exclude each other",
    ),
    (
        (
            "[identity]\nsources = ['token', 'api_key']\n"
            "[identity.api_key]\nheader = 'authorization'\nfile = 'k'\n"
        ),
        't.toml:3: identity: sources: "token" takes every bearer token, so "api_key" must stand before it',
    ),
    ("[identity]\nsources = ['saml']\n", "t.toml:4: identity.sources[0]: must be 'jwt', 'introspection'"),
    (
        "forward_headers = ['authorization']\n",
        't.toml:1: upstream[0]: forward_headers: Authorization is passed on by credentials = "pass" only',
    ),
    (
        "headers = { authorization = 'Bearer x' }\n",
        "t.toml:1: upstream[0]: headers: Authorization stands beside",
    ),
    ("[identity]\nsources = ['token', 'token']\n", "t.toml:4: identity.sources: names a source twice"),
    ("[identity]\nsources = ['api_key']\n", 't.toml:3: identity: sources names "api_key"'),
    (
        "[identity.header]\ntrusted_proxies = ['10.0.0.0/99']\n",
        "t.toml:4: identity.header.trusted_proxies[0]:",
    ),
    ('[identity.api_key]\nkeys = { a = "x\\ny" }\n', "t.toml:4: identity.api_key.keys.a: must be one line"),
    ("[identity]\nsources = 'jwt'\n", 't.toml:4: identity.sources: must be a list, as ["..."]'),
    ("[tasks]\nretention_ms = '1h'\n", "t.toml:4: tasks.retention_ms: must be milliseconds, as 60000 for a"),
    ("[tasks]\nretention_ms = 3155760000001\n", "t.toml:4: tasks.retention_ms: must be less than or equal"),
    (
        "[limits]\ntools = 9007199254740992\n",
        "t.toml:4: limits.tools: must be less than or equal to 90071992",
    ),
    ("[tasks]\nretention_ms = 0.5\n", "t.toml:4: tasks.retention_ms: must be milliseconds, as 60000 for a"),
    ("[limits]\ntools = 'x'\n", "t.toml:4: limits.tools: must be a whole number"),
    ("[cutover]\nsunset = 'soon'\n", "t.toml:4: cutover.sunset: must be a day, as 2027-07-28"),
    (
        "[identity.header]\ntrusted_proxies = ['10.0.0.5/24']\n",
        "t.toml:4: identity.header.trusted_proxies[0]: must be a network with no bits set behind its prefix",
    ),
    ("[limits\ntools = 1\n", "t.toml:3: not TOML: Expected ']' at the end of a table declaration"),
    ("x = [1,\n", "t.toml:4: not TOML: Invalid value (at end of document)"),
    ("[tasks]\non_abandon = 'stop'\n", "t.toml:4: tasks.on_abandon: must be 'keep' or 'cancel'"),
    (
        "[ownership]\nadopt_until = 2026-12-24T18:00:00\n",
        "t.toml:4: ownership.adopt_until: must have timezone",
    ),
    (
        "[ledger]\nstore_results = false\n[tasks]\npromote_rerun = true\n",
        "t.toml: tasks.promote_rerun: needs ledger.store_results, since a call that is to run once more",
    ),
    (
        "[cutover]\nafter_sunset = 'refuse'\n",
        "t.toml: cutover.after_sunset: needs cutover.sunset, which is not set",
    ),
    ("[admin]\nport = 8765\n", "t.toml: admin.port: must not be listen.port"),
    ("[listen]\nallowed_origins = ['*']\n", "t.toml:4: listen.allowed_origins[0]: must be scheme://host"),
    ("[listen]\npath = '/legacy'\n", "t.toml:4: listen.path: must not be one of"),
    ("[listen]\npath = 'mcp'\n", 't.toml:4: listen.path: must begin with "/"'),
    (
        "forward_headers = ['x-api-key']\n",
        "t.toml: upstream.forward_headers: must not name identity.api_key.head",
    ),
    ("[log\n", "t.toml:3: not TOML: "),
    (
        "[limits]\ntools = 0\npages = 0\n",
        "t.toml:4: limits.tools: must be greater than 0 (and 1 more: limits.pages)",
    ),
]


@pytest.mark.parametrize(("text", "expected"), FAULTS, ids=[text for text, _ in FAULTS])
def test_a_fault_is_one_line_with_its_place(load, text, expected):
    with pytest.raises(ConfigError) as caught:
        load(UPSTREAM + text)
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "env", "overrides", "expected"),
    [
        ("", {}, {}, "upstream.url: missing: name the server with --upstream"),
        ("[upstream]\nurl = 'http://x'\n", {}, {}, "t.toml:1: upstream: must be written [[upstream]]"),
        ("listen = 3\n", {}, {}, "t.toml:1: listen: must be a table"),
        (UPSTREAM, {"TASKSHIM_LISTEN_PRT": "1"}, {}, _MISTYPED),
        (UPSTREAM, {"TASKSHIM_LISTEN_PORT": "x"}, {}, "TASKSHIM_LISTEN_PORT: listen.port: must be a whole"),
        (UPSTREAM, {}, {"upstream": "x"}, "--upstream: upstream[0].url: must be an http"),
        (UPSTREAM, {}, {"listen": "8765"}, "--listen: expected HOST:PORT"),
        (UPSTREAM, {}, {"listen": "h:70000"}, "--listen: listen.port: must be less than"),
        (_TWO, {}, {"upstream": "http://c"}, "--upstream: the config has 2 upstreams: set it"),
    ],
)  # fmt: skip
def test_faults_of_other_sources_name_them(load, text, env, overrides, expected):
    with pytest.raises(ConfigError) as caught:
        load(text, env, overrides)
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_an_upstream_may_be_left_out_where_none_is_needed(load):
    assert load("", upstream_needed=False).upstream == ()


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_a_fault(tmp_path, content):
    path = tmp_path / "t.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"t\.toml: (cannot be read: No such file|not UTF-8)"):
        load_config(path, {}, {})


@pytest.mark.rule("OWN-STORE")
@pytest.mark.parametrize(
    "text",
    [
        "credentials = 'service'\nservice_token = \"S3CRET\\nx\"\n",
        "service_token = 'S3CRET'\nservice_token_file = 'x'\n",
        "headers = { 'bad name' = 'S3CRET' }\n",
        '[identity.api_key]\nkeys = { a = "S3CRET\\nx" }\n',
    ],
)
def test_no_fault_repeats_a_secret(load, text):
    with pytest.raises(ConfigError) as caught:
        load(UPSTREAM + text)
    assert "S3CRET" not in str(caught.value)

import pytest

from shim.wire.challenge import named_elsewhere

OURS = "https://public.example/.well-known/oauth-protected-resource/mcp"


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize(
    ("challenge", "given"),
    [
        ("Bearer", "Bearer"),
        ('Bearer realm="r", scope="a b"', 'Bearer realm="r", scope="a b"'),
        ('Bearer resource_metadata="http://up/x"', f'Bearer resource_metadata="{OURS}"'),
        ("Bearer resource_metadata=http://up/x, a=b", f'Bearer resource_metadata="{OURS}", a=b'),
        (
            'Bearer error="insufficient_scope", Resource_Metadata = "u", scope="a b"',
            f'Bearer error="insufficient_scope", Resource_Metadata = "{OURS}", scope="a b"',
        ),
        (
            r'Bearer error_description="say \"no\", resource_metadata=x", resource_metadata="u"',
            rf'Bearer error_description="say \"no\", resource_metadata=x", resource_metadata="{OURS}"',
        ),
        ('Bearer x_resource_metadata="u"', 'Bearer x_resource_metadata="u"'),
        ('Bearer resource_metadata="half', 'Bearer resource_metadata="half'),
    ],
)
def test_only_the_place_of_the_metadata_is_named_anew(challenge: str, given: str) -> None:
    assert named_elsewhere(challenge, OURS) == given


@pytest.mark.parametrize("piece", ['"\\', "resource_metadata=", 'resource_metadata="\\'])
def test_a_hostile_challenge_is_read_once(piece: str) -> None:
    hostile = piece * 20_000
    assert OURS in named_elsewhere(f'resource_metadata="u", {hostile}', OURS)

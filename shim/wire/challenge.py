"""Challenges of a 401 or 403 (RFC 9110), and the place of a server's metadata in them (RFC 9728)."""

import re

_QUOTED = r'"(?:[^"\\]|\\.)*'
# other strings are read over whole, one without an end too: what stands in them names nothing
_NAMED = re.compile(rf'(?i)(?<![\w-])(resource_metadata[ \t]*=[ \t]*)({_QUOTED}"|[^\s,"]+)|{_QUOTED}"?')


def named_elsewhere(challenge: str, metadata_url: str) -> str:
    """Give a challenge whose `resource_metadata`, where it has one, names that URL; all else stays."""
    return _NAMED.sub(lambda m: f'{m[1]}"{metadata_url}"' if m[1] else m[0], challenge)

"""What tells a legacy client that its API ends (SUNSET): RFC 9745 and RFC 8594."""

from datetime import UTC, datetime, time
from email.utils import format_datetime

from shim.config.surface import Cutover


def sunset_headers(cutover: Cutover) -> list[tuple[str, str]]:
    """Give the headers of a successful legacy answer; Sunset and Link only where the operator set them."""
    deprecated = datetime.combine(cutover.deprecation, time(), UTC)
    headers = [("Deprecation", f"@{int(deprecated.timestamp())}")]
    if cutover.sunset is not None:
        when = datetime.combine(cutover.sunset, time(), UTC)
        headers.append(("Sunset", format_datetime(when, usegmt=True)))
        if cutover.link is not None:
            headers.append(("Link", f'<{cutover.link}>; rel="sunset"; type="text/html"'))
    return headers

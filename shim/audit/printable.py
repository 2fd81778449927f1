"""What others stated, fit to be shown: no control characters, nothing that turns the text around, no end."""

_CHARS = 300


def printable(text: str, at_most: int = _CHARS) -> str:
    """Give the beginning of the text, escaped as a whole if anything in it cannot be printed."""
    shown = text if len(text) <= at_most else f"{text[:at_most]}…"
    return shown if shown.isprintable() else ascii(shown)[1:-1]

"""What others stated, fit to be shown: no control characters, nothing that turns the text around."""


def printable(text: str) -> str:
    """Give the text, escaped as a whole if anything in it cannot be printed."""
    return text if text.isprintable() else ascii(text)[1:-1]

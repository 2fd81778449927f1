"""The code blocks of a page, and what a comment before a block says of how it runs.

    <!-- not run: WHY -->     it is not run
    <!-- background: PORT -->  it goes on running beside the others; the next one waits for the port
    <!-- stops: PORT -->       what runs in the background on that port is ended before it
    <!-- exits: CODE -->       it exits with this code

A block with a title is a file of that name. A block of `text` after one that is run is what it prints: a line
`...` stands for any lines, `...` in a line for any text.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(r"<!-- ([\w ]+): ([^\n]+?) -->\s*\Z")
_TITLE = re.compile(r'title="([^"]+)"')
WORDS = {"not run", "background", "stops", "exits"}


@dataclass
class Block:
    """One block of a page."""

    kind: str
    text: str
    line: int
    title: str | None = None
    said: dict[str, str] = field(default_factory=dict)
    """What the comments before it say."""
    prints: str | None = None


def blocks(page: Path) -> list[Block]:
    """Give a page's blocks in order; one of expected output belongs to the block before it."""
    text = page.read_text("utf-8")
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        before, said = text[end : match.start()], {}
        while (comment := _COMMENT.search(before)) is not None:
            said[comment[1]] = comment[2]
            before = before[: comment.start()]
        assert set(said) <= WORDS, f"{page.name}: {said}"
        title = _TITLE.search(match["info"])
        block = Block(
            match["kind"],
            re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
            text.count("\n", 0, match.start()) + 1,
            title[1] if title else None,
            said,
        )
        end = match.end()
        ran = found and found[-1].kind == "sh" and "not run" not in found[-1].said
        if block.kind == "text" and ran and found[-1].prints is None:
            found[-1].prints = block.text
        else:
            found.append(block)
    return found


def fits(expected: str, printed: str) -> bool:
    """Tell whether a text is what a page says that it is."""
    parts = [".*".join(map(re.escape, line.rstrip().split("..."))) for line in expected.strip().splitlines()]
    lines = [r"(?:[^\n]*\n)*?" if line == ".*" else rf"[ \t]*{line}[ \t]*\n" for line in parts]
    return re.fullmatch("".join(lines).replace(".*", "[^\\n]*"), printed.strip() + "\n") is not None

"""How often something is there, in words: the one place that knows of one and many."""


def agreeing(count: int, one: str, many: str | None = None) -> str:
    """Give the words that go with a count, a noun and what follows it; without `many`, `one` with an s."""
    return one if count == 1 else many or f"{one}s"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Give a count with its words: `1 task has`, `2 tasks have`."""
    return f"{count} {agreeing(count, one, many)}"


def part_of(part: int, whole: int, noun: str, one: str, many: str) -> str:
    """Give a part of a count, with the noun of the whole and the verb of the part: `1 of 3 requests was`."""
    return f"{part} of {counted(whole, noun)} {agreeing(part, one, many)}"

"""How sure one share is about another. Pure."""

import math

_Z95 = 1.959964


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Give the bounds of a share, at 95 per cent (Wilson)."""
    share, z2 = hits / count, _Z95**2
    middle = share + z2 / (2 * count)
    spread = _Z95 * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    return (middle - spread) / (1 + z2 / count), (middle + spread) / (1 + z2 / count)


def difference(new: tuple[int, int], old: tuple[int, int]) -> tuple[float, float]:
    """Give the share of the new above the old, (hits, count) each, and its upper bound (Newcombe)."""
    new_share, old_share = new[0] / new[1], old[0] / old[1]
    above, below = wilson(*new)[1] - new_share, old_share - wilson(*old)[0]
    return new_share - old_share, new_share - old_share + math.hypot(above, below)

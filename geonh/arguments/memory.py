"""Memory check before allocation."""

from __future__ import annotations

import os

SMALL = 2**26
"""Bytes that fit anywhere."""
MEMORY = 0.8
"""Fraction of the machine's memory that stored results may take."""


def refuse_too_much(what: str, numbers: dict[str, int], advice: str) -> None:
    """Raise MemoryError, with advice, if so many float64 numbers do not fit into memory."""
    needed = 8 * sum(numbers.values())
    if needed < SMALL:
        return
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not known on every platform
        return
    if needed > MEMORY * there > 0:
        parts = ", ".join(f"{name} {8 * n / 2**30:.1f}" for name, n in numbers.items() if n)
        details = f" ({parts})" if len(numbers) > 1 else ""
        raise MemoryError(
            f"{what} take {needed / 2**30:.1f} GiB of this machine's {there / 2**30:.1f}{details}: {advice}"
        )

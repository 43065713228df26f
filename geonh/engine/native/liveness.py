"""Values of a function that are needed at the same time: how much stack its code may use where they do not fit into
registers.
"""

from __future__ import annotations

import re

import numpy as np

_TARGET = re.compile(r"label %(\w+)")
_DIGITS = 10
"""Number of digits of a name at most."""


def most_alive(text: str, widest: int) -> int:
    """Largest number of bytes of values that are needed at once in a function of LLVM text, with ``widest`` lanes.

    A value is needed from the line that defines it to the last that uses it; if that is in a loop which began after it,
    to the end of the loop.
    """
    names, lines, defines, is_wide = _occurrences(text)
    n_lines, n = text.count("\n") + 1, int(names.max(initial=0)) + 1
    begins, ends, sizes = np.full(n, -1), np.zeros(n, np.int64), np.full(n, 8)
    begins[names[defines]] = lines[defines]
    sizes[names[is_wide]] = 8 * widest
    np.maximum.at(ends, names, lines)
    known = np.flatnonzero(begins >= 0)
    begins = np.maximum(begins, 0)
    for first, last in sorted(_loops(text), key=lambda loop: loop[1]):
        used = names[slice(*np.searchsorted(lines, [first, last + 1]))]
        outside = (begins[used] < first) | (begins[used] > ends[used])  # from before the loop, or for its next turn
        ends[used[outside]] = np.maximum(ends[used[outside]], last)
    change = np.zeros(n_lines + 1, np.int64)
    np.add.at(change, begins[known], sizes[known])
    np.add.at(change, np.maximum(ends, begins)[known] + 1, -sizes[known])
    return int(np.cumsum(change).max(initial=0))


def _occurrences(text: str) -> tuple[np.ndarray, ...]:
    """Numbers of the values %u…, %v… in a text, their lines, and masks of those defined there and of wide ones."""
    letters = np.frombuffer(text.encode("ascii") + b" " * (_DIGITS + 2), np.uint8)
    at = np.flatnonzero(letters == ord("%"))
    at = at[np.isin(letters[at + 1], (ord("u"), ord("v")))]
    names, in_name = np.zeros(len(at), np.int64), np.ones(len(at), bool)
    for i in range(2, _DIGITS + 2):
        digit = letters[at + i].astype(np.int64) - ord("0")
        in_name &= (digit >= 0) & (digit <= 9)
        names = np.where(in_name, 10 * names + digit, names)
    is_name = (letters[at + 2] >= ord("0")) & (letters[at + 2] <= ord("9"))
    at, names = at[is_name], names[is_name]
    ends_of_lines = np.flatnonzero(letters == ord("\n"))
    lines = np.searchsorted(ends_of_lines, at)
    begins_line = (at == 0) | (letters[at - 1] == ord("\n"))
    return names, lines, begins_line, letters[at + 1] == ord("v")


def _loops(text: str) -> list[tuple[int, int]]:
    """First and last lines of the loops: from a label to a jump back to it."""
    labels: dict[str, int] = {}
    loops = []
    for i, line in enumerate(text.split("\n")):
        if line.endswith(":"):
            labels[line[:-1]] = i
        elif line.startswith("br "):
            loops += [(labels[target], i) for target in _TARGET.findall(line) if target in labels]
    return loops

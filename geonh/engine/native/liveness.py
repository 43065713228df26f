"""Values of a function that are needed at the same time: how much stack its code may use where they do not fit into
registers.
"""

from __future__ import annotations

import re
from itertools import accumulate

_NAME = re.compile(r"%[uv]\d+")
_LABEL = re.compile(r"(b\d+|[a-z]+):$")
_TARGET = re.compile(r"label %(\w+)")


def most_alive(text: str, widest: int) -> int:
    """Largest number of bytes of values that are needed at once in a function of LLVM text, with ``widest`` lanes.

    A value is needed from the line that defines it to the last that uses it; if that is in a loop which began after it,
    to the end of the loop.
    """
    lines = text.split("\n")
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    used: list[list[str]] = []
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for i, line in enumerate(lines):
        names = _NAME.findall(line)
        used.append(names)
        if names and line.startswith(f"{names[0]} = "):
            begins[names[0]] = i
        for name in names:
            ends[name] = i
        if label := _LABEL.match(line):
            labels[label[1]] = i
        elif line.startswith("br "):
            loops += [(labels[target], i) for target in _TARGET.findall(line) if target in labels]
    for first, last in sorted(loops, key=lambda loop: loop[1]):
        for names in used[first : last + 1]:
            for name in names:
                begin = begins.get(name, 0)
                if not first <= begin <= ends[name]:  # from before the loop, or for its next turn
                    ends[name] = max(ends[name], last)
    change = [0] * (len(lines) + 1)
    for name, begin in begins.items():
        size = 8 * (widest if name[1] == "v" else 1)
        change[begin] += size
        change[max(ends[name], begin) + 1] -= size
    return max(accumulate(change))

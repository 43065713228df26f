"""Docstrings as Markdown."""

import inspect
import re


def prose(doc):
    """A docstring as Markdown: its indented formulas as blocks, its literals as code."""
    out, block = [], []

    def close():
        while block and not block[-1].strip():
            block.pop()
        if block:
            out.extend(["```text", *block, "```", ""])
            block.clear()

    listed = False
    for line in inspect.cleandoc(doc or "").split("\n"):
        listed = bool(re.match(r"\s*(\d+\.|-|\*)\s", line)) or (listed and line.startswith(" "))
        if line.startswith("    ") and not listed and (block or not out or not out[-1].strip()):
            block.append(line[4:])
        elif block and not line.strip():
            block.append("")
        else:
            close()
            out.append(escaped(line))
    close()
    return "\n".join(out)


def escaped(line):
    """Marks of Markdown that are mathematics here; emphasis in *stars* stays."""
    parts = re.split(r"(``.*?``|`[^`]+`)", line)
    for i in range(0, len(parts), 2):
        part = re.sub(r"(?<=\w)\*(?=[\s_,.;)(]|\w|$)(?![^*]*\w\*)", r"\\*", parts[i])
        part = re.sub(r"(?<!\w)\*(?=\s|$)", r"\\*", part)
        parts[i] = part.replace("_", r"\_").replace("|", r"\|").replace("<", "&lt;").replace("$", r"\$")
        parts[i] = parts[i].replace("[", r"\[") if i == 0 or parts[i] else parts[i]
    return "".join(parts).replace("``", "`")

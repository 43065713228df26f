"""Docstrings as Markdown."""

import inspect
import re


def prose(doc):
    """A docstring as Markdown: its indented formulas as blocks, its literals as code."""
    out, block, words = [], [], []

    def close():
        if words:
            out.append(escaped("\n".join(words)))
            words.clear()
        while block and not block[-1].strip():
            block.pop()
        if block:
            out.extend(["```text", *block, "```", ""])
            block.clear()

    listed, before = False, ""
    for line in inspect.cleandoc(doc or "").split("\n"):
        listed = bool(re.match(r"\s*(\d+\.|-|\*)\s", line)) or (listed and line.startswith(" "))
        if line.startswith("    ") and not listed and (block or not before.strip()):
            if not block:
                close()
            block.append(line[4:])
        elif block and not line.strip():
            block.append("")
        else:
            if block:
                close()
            words.append(line)
        before = line
    close()
    return "\n".join(out)


def escaped(text):
    """Marks of Markdown that are mathematics here are kept; emphasis in *stars* stays."""
    parts = re.split(r"(``.*?``|`[^`]+`)", text, flags=re.S)
    for i in range(0, len(parts), 2):
        part = re.sub(r"(?<![\w*\\])(\*{1,2})(?=\w)([^*|ξ=]{3,200}?)\1(?![\w*])", "\0\\1\\2\\1", parts[i], flags=re.S)
        part = re.sub(r"\0(\*{1,2})(.*?)\1", lambda m: m.group().replace("*", "\1")[1:], part, flags=re.S)
        part = part.replace("*", r"\*").replace("\1", "*")
        for mark in "_|[$":
            part = part.replace(mark, "\\" + mark)
        parts[i] = part.replace("<", "&lt;")
    return "".join(parts).replace("``", "`")

"""Output of the commands: two consoles, tables, numbers as text, and exit on usage errors."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

PIPED_WIDTH = 120

out = Console(emoji=False, width=None if sys.stdout is not None and sys.stdout.isatty() else PIPED_WIDTH)
err = Console(emoji=False, stderr=True, soft_wrap=True)


def new_table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column)
    return table


def facts_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Table of labels, in bold, and texts."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for label, text in rows:
        table.add_row(label, escape(text))
    return table


def tell_saved(path: Path, more: str = "") -> None:
    out.print(f"saved {escape(str(path))}{more}", highlight=False, soft_wrap=True)


def without_rounding(values: Any) -> Any:
    """Replace entries at rounding level, relative to the largest, by zeros."""
    import numpy as np

    return np.where(np.abs(values) < 1e-14 * np.abs(values).max(initial=0.0), 0.0, values)


def numbers(values: Any) -> str:
    import numpy as np

    flat = [f"{v:.6g}" for v in np.ravel(values)]
    return flat[0] if len(flat) == 1 else "\n".join(flat) if len(flat) <= 4 else ", ".join(flat)


def value_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(value_text(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip())


def message_of(error: BaseException) -> str:
    """One-line message of an exception, even if a user-defined one cannot produce it."""
    try:
        return one_line(str(error))
    except Exception:
        return "(it cannot say what)"


@contextlib.contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Context in which exceptions of these kinds are errors about the user's input."""
    try:
        yield
    except kinds as error:
        refuse(message_of(error))


def refuse(message: str) -> NoReturn:
    """Print an error about the user's input, and exit with code 2."""
    message = message.replace("controls= is needed", "the file needs a variable controls, a function of t or values")
    shortened = re.sub(r"\S{300,}", lambda word: f"{word[0][:80]}…", message)
    err.print(f"[bold red]error:[/] {escape(shortened)}", highlight=False)
    raise typer.Exit(2)

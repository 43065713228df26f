"""Dense algebra on small matrices."""

from __future__ import annotations

from collections.abc import Callable

RULES: dict[str, Callable] = {}
NAMED: dict[str, Callable] = {}

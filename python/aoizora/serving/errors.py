"""The one error of this package."""

from __future__ import annotations

from aoizora.errors import UserError


class PlanError(UserError, ValueError):
    """The plan file is no good, or it does not fit these devices; one line says what to do."""

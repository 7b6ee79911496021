"""Errors that a worker reports by kind: the user's, what we refuse, the compiler's."""

from __future__ import annotations


class AoizoraError(Exception):
    """Base of the errors whose message is one clear line meant for a person."""

    kind = "internal"


class UserError(AoizoraError):
    """The request can't be met as asked; the message says what would be."""

    kind = "user"


class UnsupportedError(AoizoraError):
    """A correct request that a stage can't answer truthfully, so it is refused."""

    kind = "unsupported"


class CompilerError(AoizoraError):
    """The TPU compiler refused or failed."""

    kind = "compiler"

    def __init__(self, message: str, memory: dict[str, int] | None = None) -> None:
        """``memory``: needed_bytes and available_bytes per chip, when it ran out of HBM."""
        super().__init__(message)
        self.memory = memory

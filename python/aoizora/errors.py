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

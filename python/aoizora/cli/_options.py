"""Flags that several commands share."""

from __future__ import annotations

import argparse
import os
import pathlib


def positive(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def on_off(text: str) -> bool:
    """`on` or `off`."""
    if text not in ("on", "off"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither on nor off")
    return text == "on"


def key_value(text: str) -> tuple[str, str]:
    """`name=value`."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    return key, value


def cache_folder() -> pathlib.Path:
    """$AOIZORA_CACHE, else aoizora under $XDG_CACHE_HOME, else under ~/.cache."""
    chosen = os.environ.get("AOIZORA_CACHE")
    if chosen:
        return pathlib.Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "aoizora"

"""Live progress on standard error: a bar on a terminal, one line a stage elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

WORDS = {
    "describe": "tracing the model",
    "enumerate": "enumerating shardings",
    "shard": "sharding with Shardy",
    "compile": "compiling survivors",
    "place": "ranking placements",
    "realise": "compiling the winner",
}


class StageProgress:
    """Hears the events of the C++ pipeline. `quiet` leaves only warnings."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.bar: Progress | None = None
        self.task: TaskID | None = None

    def __enter__(self) -> StageProgress:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self.bar = Progress(
                TextColumn("{task.description:<22}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[count]:>7}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[last]}"),
                console=Console(stderr=True),
            )
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(
        self, kind: str, stage: str, text: str, done: int, total: int, seconds: float
    ) -> None:
        """One event; see `Event` in src/aoizora/pipeline.h."""
        if kind == "warning":
            print(f"aoizora: warning: {text}", file=sys.stderr)
        elif self.bar is not None:
            self._on_terminal(kind, stage, text, done, total)
        elif not self.quiet:
            self._as_lines(kind, stage, text, done, total, seconds)

    def _on_terminal(self, kind: str, stage: str, text: str, done: int, total: int) -> None:
        assert self.bar is not None
        if kind == "begin":
            self.task = self.bar.add_task(WORDS.get(stage, stage), total=None, count="", last="")
        elif self.task is not None and kind == "progress":
            self.bar.update(
                self.task, completed=done, total=total, count=f"{done}/{total}", last=text
            )
        elif self.task is not None:
            self.bar.update(self.task, completed=1, total=1, last="")
            self.bar.stop_task(self.task)

    @staticmethod
    def _as_lines(kind: str, stage: str, text: str, done: int, total: int, seconds: float) -> None:
        word = WORDS.get(stage, stage)
        if kind == "progress" and stage in ("compile", "realise"):
            print(f"  {word}: {done}/{total} {text}", file=sys.stderr, flush=True)
        elif kind == "end":
            print(f"  {word}: {seconds:.1f} s", file=sys.stderr, flush=True)

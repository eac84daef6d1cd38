"""What all commands share: who hears what, and what an error looks like."""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from coterie.cli.pipes import READER_LEFT

if TYPE_CHECKING:
    from rich.console import Console

BAD_INPUT, STOPPED, UNEXPECTED = 2, 130, 1

# What is wrong with the input, with the machine or with what is installed: the message is all that a user needs.
# Errors of coterie.formats and of model files are ValueErrors.
EXPECTED = (ValueError, OSError, ImportError, MemoryError)
USAGE_ERROR: Any = typer.BadParameter.__base__  # typer's own, whichever version of click it stands on

DEBUG, WARNINGS = "coterie.debug", "coterie.warnings"

PIPE_WIDTH = 120
LONGEST = 1000  # letters of an error


class Commands(TyperGroup):
    """The commands: whatever goes wrong in one of them is one line on standard error and an exit code.

    0 is success, 1 is a fault of Coterie, 2 is bad input or usage, 130 is Ctrl-C, 141 is output that nobody reads.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            with plain_warnings(ctx.meta.setdefault(WARNINGS, [])):
                return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise  # typer's to handle
        except BrokenPipeError:
            raise SystemExit(READER_LEFT) from None  # a file that we write is a pipe, whose reader has had enough
        except (Exception, KeyboardInterrupt) as error:
            if ctx.meta.get(DEBUG):
                traceback.print_exc()
            code, message = judge(error)
            complain("error", message)
            raise typer.Exit(code) from None


def judge(error: BaseException) -> tuple[int, str]:
    """Return the exit code for an error, and what to say of it.

    Examples
    --------
    >>> judge(ValueError("a.npy is empty."))
    (2, 'a.npy is empty.')
    """
    if isinstance(error, KeyboardInterrupt):
        return STOPPED, "stopped; no file was left half-written"
    if isinstance(error, USAGE_ERROR):
        command = error.ctx.command_path if error.ctx else "coterie"
        message = error.format_message()
        return BAD_INPUT, f"{message}{'' if message.endswith(('.', '?')) else '.'} See {command} --help."
    if isinstance(error, EXPECTED):
        return BAD_INPUT, in_one_line(error)
    name = type(error).__name__
    return UNEXPECTED, f"unexpected {name}: {in_one_line(error)} (--debug shows where; please report it)"


def in_one_line(error: BaseException) -> str:
    """Return what an error says, on one line.

    Examples
    --------
    >>> in_one_line(FileNotFoundError(2, "No such file or directory", "a.npy"))
    'a.npy: No such file or directory'
    >>> in_one_line(MemoryError())
    'out of memory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    said = " ".join(str(error).split())
    if len(said) > LONGEST:  # it quotes what was written, which may be anything
        said = f"{said[:LONGEST]}..."
    return said or ("out of memory" if isinstance(error, MemoryError) else type(error).__name__)


@contextmanager
def plain_warnings(found: list[str]) -> Iterator[None]:
    """Show warnings as a line each, without the place in the code, and remember them."""

    def show(message: Any, *_: Any) -> None:
        found.append(" ".join(str(message).split()))
        complain("warning", found[-1])

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def complain(kind: str, message: str) -> None:
    """Write a line to standard error, its first word in colour on a terminal."""
    colour = typer.colors.RED if kind == "error" else typer.colors.YELLOW
    typer.echo(f"{typer.style(kind + ':', fg=colour, bold=True)} {visible(message)}", err=True)


def visible(text: str) -> str:
    """Return text without what would steer a terminal: names in files may be anybody's.

    Examples
    --------
    >>> visible("red \\x1b[31m")
    'red �[31m'
    """
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def cell(text: str) -> str:
    """Return text for a table of rich, as it is."""
    from rich.markup import escape

    return escape(visible(text))


def numbered(count: int, what: str) -> str:
    """Return how many there are of something.

    Examples
    --------
    >>> numbered(1, "row"), numbered(45_000, "row")
    ('1 row', '45,000 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def remember_debug(ctx: typer.Context, value: bool) -> bool:
    """Keep --debug where errors are reported."""
    ctx.meta[DEBUG] = value or ctx.meta.get(DEBUG, False)
    return value


@dataclass(frozen=True)
class Voice:
    """What a command says: its result on standard output, all else on standard error."""

    quiet: bool
    json: bool
    verbose: bool
    warnings: list[str]

    @classmethod
    def of(cls, ctx: typer.Context) -> Voice:
        """Return the voice that a command's options ask for."""
        given = ctx.params
        quiet, as_json, verbose = (bool(given.get(name)) for name in ("quiet", "json", "verbose"))
        return cls(quiet, as_json, verbose, ctx.meta.setdefault(WARNINGS, []))

    def result(self, found: Mapping[str, Any], show: Callable[[Console], None]) -> None:
        """Give the result: as JSON, as ``show`` prints it, or not at all."""
        if self.json:
            from coterie import __version__

            whole = {"coterie": __version__, **found, "warnings": self.warnings}
            typer.echo(in_json(as_json(whole)))
        elif not self.quiet:
            show(console())

    def note(self, line: str) -> None:
        """Say something in passing."""
        if not self.quiet:
            typer.echo(line, err=True)

    @property
    def silent(self) -> bool:
        """Whether no bar is shown: then nothing is imported for it either."""
        return self.quiet or self.verbose or not sys.stderr.isatty()

    @contextmanager
    def bar(self, what: str) -> Iterator[None]:
        """Show on a terminal which stage the work inside is in, and of every pass over rows how far it is."""
        if self.silent:
            yield
            return
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        from coterie.progress import listening, rich_bars

        columns = (TextColumn("{task.fields[rate]}"), TimeRemainingColumn(compact=True), TimeElapsedColumn())
        with rich_bars(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), *columns) as shown:
            stages = shown.add_task(what, total=None, rate="")
            rows = shown.add_task("", total=None, rate="", visible=False)

            def hear(stage: str) -> None:
                shown.update(stages, description=f"{what}: {stage.replace('_', ' ')}")
                shown.update(rows, visible=False)

            def count(done: int, n_rows: int) -> None:
                task = shown.tasks[rows]
                if not task.visible or done <= task.completed:  # another pass
                    shown.reset(rows, total=n_rows, visible=True, description="  rows")
                rate = f"{task.speed:,.0f} rows/s" if task.speed else ""
                shown.update(rows, completed=done, rate=rate)

            with listening(hear, count):
                yield

    def stage(self, name: str) -> None:
        """Name the stage that the work is in, where a bar shows it."""
        from coterie.progress import tell_stage

        tell_stage(name)

    @contextmanager
    def steps(self, what: str, total: int | None) -> Iterator[Callable[[int | None, str], None]]:
        """Show a bar on a terminal; yields a function that takes the steps that are done and what is being done."""
        if self.silent:
            yield lambda done, words: None
            return
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

        from coterie.progress import rich_bars

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with rich_bars(*columns) as shown:
            task = shown.add_task(what, total=total)
            yield lambda done, words: shown.update(task, completed=done, description=words)


def console() -> Console:
    """Return standard output as rich has it: in colour on a terminal, wide and plain in a pipe."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def in_json(value: Any) -> str:
    """Return a plain value as JSON in one line; all but ASCII is escaped where names of files are not UTF-8.

    Examples
    --------
    >>> in_json({"labels": "out.csv"})
    '{"labels": "out.csv"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False)
    return text


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: arrays as lists, paths as text, and null for NaN and infinity.

    Examples
    --------
    >>> import numpy as np
    >>> as_json({"gap": np.array([0.5, np.nan]), "k": np.int64(3)})
    {'gap': [0.5, None], 'k': 3}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): as_json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)

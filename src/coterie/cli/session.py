"""Output and errors of all commands: what goes to standard output, to standard error, and which exit code."""

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

from coterie.cli.pipes import READER_LEFT, check_open

if TYPE_CHECKING:
    from rich.console import Console

BAD_INPUT, STOPPED, UNEXPECTED = 2, 130, 1

# Errors of the input, the machine or the installation: the message is enough for a user, who gets no traceback.
# Errors of coterie.formats and of model files are ValueErrors.
EXPECTED = (ValueError, OSError, ImportError, MemoryError)
# click's UsageError: recent versions of typer bundle a click of their own, others import it.
USAGE_ERROR: Any = typer.BadParameter.__base__

DEBUG, WARNINGS = "coterie.debug", "coterie.warnings"

PIPE_WIDTH = 120
LONGEST = 1000  # letters of an error


class Commands(TyperGroup):
    """The commands; an exception in one of them becomes one line on standard error and an exit code.

    0 is success, 1 an internal error of Coterie, 2 bad input or usage, 130 Ctrl-C, 141 a closed output pipe.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            with plain_warnings(ctx.meta.setdefault(WARNINGS, [])):
                return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise  # typer's to handle
        except BrokenPipeError:
            raise SystemExit(READER_LEFT) from None  # an output file is a pipe whose reader has closed it
        except (Exception, KeyboardInterrupt) as error:
            if ctx.meta.get(DEBUG):
                traceback.print_exc()
            code, message = judge(error)
            complain("error", message)
            raise typer.Exit(code) from None


def judge(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message for an error.

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
    """Return the message of an error on one line.

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
    if len(said) > LONGEST:  # messages quote the user's input, which has any length
        said = f"{said[:LONGEST]}..."
    return said or ("out of memory" if isinstance(error, MemoryError) else type(error).__name__)


@contextmanager
def plain_warnings(found: list[str]) -> Iterator[None]:
    """Print each warning as one line, without file and line number, and append it to ``found``."""

    def show(message: Any, *_: Any) -> None:
        found.append(" ".join(str(message).split()))
        complain("warning", found[-1])

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def complain(kind: str, message: str) -> None:
    """Write a message to standard error, after its kind, which is coloured on a terminal."""
    colour = typer.colors.RED if kind == "error" else typer.colors.YELLOW
    typer.echo(f"{typer.style(kind + ':', fg=colour, bold=True)} {visible(message)}", err=True)


def visible(text: str) -> str:
    """Return text with control characters replaced, because names in untrusted files could steer the terminal.

    Examples
    --------
    >>> visible("red \\x1b[31m")
    'red �[31m'
    """
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def cell(text: str) -> str:
    """Return text for a table of rich, with rich's markup escaped."""
    from rich.markup import escape

    return escape(visible(text))


def numbered(count: int, what: str) -> str:
    """Return a count and its noun, in the plural unless the count is one.

    Examples
    --------
    >>> numbered(1, "row"), numbered(45_000, "row")
    ('1 row', '45,000 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def remember_debug(ctx: typer.Context, value: bool) -> bool:
    """Store --debug in the context, where the error handler reads it."""
    ctx.meta[DEBUG] = value or ctx.meta.get(DEBUG, False)
    return value


@dataclass(frozen=True)
class Voice:
    """The output of a command: its result on standard output, everything else on standard error."""

    quiet: bool
    json: bool
    verbose: bool
    warnings: list[str]

    @classmethod
    def of(cls, ctx: typer.Context) -> Voice:
        """Return the voice for a command's --quiet, --json and --verbose."""
        given = ctx.params
        quiet, as_json, verbose = (bool(given.get(name)) for name in ("quiet", "json", "verbose"))
        return cls(quiet, as_json, verbose, ctx.meta.setdefault(WARNINGS, []))

    def result(self, found: Mapping[str, Any], show: Callable[[Console], None]) -> None:
        """Print the result: as JSON, with ``show``, or not at all if quiet."""
        if not found.get("files") and (self.json or not self.quiet):
            check_open()
        if self.json:
            from coterie import __version__

            whole = {"coterie": __version__, **found, "warnings": self.warnings}
            typer.echo(in_json(as_json(whole)))
        elif not self.quiet:
            show(console())

    def note(self, line: str) -> None:
        """Write a line to standard error, unless quiet."""
        if not self.quiet:
            typer.echo(line, err=True)

    @property
    def silent(self) -> bool:
        """Whether progress bars are off; the imports that they need are skipped, too."""
        return self.quiet or self.verbose or not sys.stderr.isatty()

    @contextmanager
    def bar(self, what: str) -> Iterator[None]:
        """Show the current stage, and a progress bar for each pass over the rows, on a terminal."""
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
                if not task.visible or done <= task.completed:  # a new pass begins
                    shown.reset(rows, total=n_rows, visible=True, description="  rows")
                rate = f"{task.speed:,.0f} rows/s" if task.speed else ""
                shown.update(rows, completed=done, rate=rate)

            with listening(hear, count):
                yield

    def stage(self, name: str) -> None:
        """Tell the progress bar, if there is one, that a stage begins."""
        from coterie.progress import tell_stage

        tell_stage(name)

    @contextmanager
    def steps(self, what: str, total: int | None) -> Iterator[Callable[[int | None, str], None]]:
        """Show a bar on a terminal; yield a function of the number of steps done and a description to show."""
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
    """Return a rich console for standard output: coloured on a terminal, plain and PIPE_WIDTH wide in a pipe."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def in_json(value: Any) -> str:
    """Return a plain value as JSON on one line; non-ASCII is escaped if a string cannot be encoded in UTF-8.

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
    """Return a value with JSON's types: arrays become lists, NaN and infinity None, and other objects text.

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

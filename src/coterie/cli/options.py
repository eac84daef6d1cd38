"""The options that commands share, the parsing of their values, and the TOML file that may hold them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.session import as_json, in_json, remember_debug
from coterie.files import expand_home

if TYPE_CHECKING:
    from coterie import GuidedCoTraining

# Options that are parameters of the estimator under another name.
PARAMETERS = {
    "seed": "random_state",
    "landmarks": "n_landmarks",
    "neighbors": "n_neighbors",
    "scaling": "scaling",
    "metric": "metric",
    "weights": "view_weights",
    "max_iter": "max_iter",
    "device": "device",
    "jobs": "n_jobs",
    "memory_limit": "memory_limit",
    "work_dir": "work_dir",
    "verbose": "verbose",
}
AS_WRITTEN = ("device", "memory_limit")
BY_VIEW = ("scaling", "metric", "weights")  # may differ between views
NOT_RECORDED = {
    "config",
    "dry_run",
    "overwrite",
    "memory_limit",
    "work_dir",
    "quiet",
    "json",
    "debug",
    "verbose",
}  # these do not change the result


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Use the options of a TOML file as defaults of the command; options on the command line win."""
    if path is not None:
        params = {name: param for param, name in zip(ctx.command.params, long_names(ctx).values(), strict=True)}
        params.pop("config")
        others = set(getattr(ctx.parent.command, "commands", ())) if ctx.parent else set()
        found = load_config(path, str(ctx.info_name), list(params), others)
        ctx.default_map = {
            **(ctx.default_map or {}),
            **{
                str(params[name].name): given(params[name], value, f"{path}: {name!r}") for name, value in found.items()
            },
        }
    return path


def long_names(ctx: typer.Context) -> dict[str, str]:
    """Return the names of a command's parameters in a TOML file: those on the command line, without the dashes."""
    found = {}
    for param in ctx.command.params:
        written = [option[2:] for option in param.opts if option.startswith("--")]
        found[str(param.name)] = written[0] if written else str(param.name)
    return found


def takes_several(param: Any) -> bool:
    """Whether an option may be repeated, or an argument is a list."""
    return bool(getattr(param, "multiple", False)) or param.nargs == -1


def load_config(path: Path, command: str, known: Sequence[str], commands: Collection[str]) -> dict[str, Any]:
    """Return a command's options from a TOML file: those at the top and those in the table named after the command."""
    import tomllib

    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}.") from error
    own = found.pop(command, {})
    if not isinstance(own, dict):
        raise ValueError(f"{path}: {command!r} must be a table of options. Got {own!r} instead.")
    shared = {key: value for key, value in found.items() if not (key in commands and isinstance(value, dict))}
    options = {key.replace("_", "-"): value for key, value in {**shared, **own}.items()}
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}."
            raise ValueError(f"{path}: {command} has no option {name!r}. {hint}")
    return options


def given(param: Any, value: Any, told: str) -> Any:
    """Return a TOML value as the command line would pass it to a parameter, which ``told`` names in errors."""
    is_switch = bool(getattr(param, "is_flag", False))
    if is_switch != isinstance(value, bool):
        allowed = "true or false" if is_switch else "a value as on the command line, not true or false"
        raise ValueError(f"{told} must be {allowed}. Got {in_json(as_json(value))} instead.")
    return value if is_switch else as_written(value, takes_several(param))


def as_written(value: Any, several: bool) -> Any:
    """Return a TOML value as the command line would pass it.

    Examples
    --------
    >>> as_written({"pixels": 2, "words": "auto"}, True), as_written([5, 10], False)
    (['pixels=2', 'words=auto'], '5,10')
    """
    if isinstance(value, dict):
        value = [f"{name}={one_word(entry)}" for name, entry in value.items()]
    if not several:
        return one_word(value)
    return [one_word(entry) for entry in value] if isinstance(value, list) else [one_word(value)]


def one_word(value: Any) -> str:
    """Return one value as text."""
    if isinstance(value, list):
        return ",".join(map(one_word, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def recorded(ctx: typer.Context) -> dict[str, Any]:
    """Return the options in force, from which a TOML file repeats the run."""
    names = long_names(ctx)
    return {
        names[param]: [str(entry) for entry in value] if isinstance(value, list | tuple) else as_json(value)
        for param, value in sorted(ctx.params.items())
        if param not in NOT_RECORDED and value is not None and value != () and value != []
    }


def as_toml(options: Mapping[str, Any]) -> str:
    """Return options as a TOML file.

    Examples
    --------
    >>> as_toml({"clusters": "10", "views": ["a.npy", "b.npy"], "seed": 0, "published": False})
    'clusters = "10"\\nviews = ["a.npy", "b.npy"]\\nseed = 0\\npublished = false\\n'
    """
    # TOML and JSON write strings, integers, lists and booleans alike.
    return "".join(f"{name} = {in_json(value)}\n" for name, value in options.items())


# -- values ---------------------------------------------------------------------------------------------------------


def parse_value(text: str) -> Any:
    """Return the value that an option's text denotes; text that is neither a list nor JSON stays text.

    Examples
    --------
    >>> parse_value("10"), parse_value("0.5"), parse_value("5,10,80"), parse_value("false"), parse_value("block")
    (10, 0.5, [5, 10, 80], False, 'block')
    """
    if "," in text and not text.startswith("["):
        return [parse_value(part.strip()) for part in text.split(",")]
    if text.lower() == "none":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def by_view(option: str, values: Sequence[str]) -> Any:
    """Return one value for all views, or a dict from views to values.

    Examples
    --------
    >>> by_view("--scaling", ["block"]), by_view("--weights", ["rna=2", "protein=0.5"])
    ('block', {'rna': 2, 'protein': 0.5})
    """
    named = [value.partition("=") for value in values if "=" in value]
    if not named and len(values) == 1:
        return parse_value(values[0])
    if len(named) < len(values):
        raise ValueError(f"{option} takes one value for all views, or name=value for each. Got {' '.join(values)}.")
    return {name: parse_value(value) for name, _, value in named}


def make_model(options: Mapping[str, Any]) -> GuidedCoTraining:
    """Return the estimator that a command's options describe."""
    from coterie import GuidedCoTraining

    make = GuidedCoTraining.as_published if options.get("published") else GuidedCoTraining
    return make(parse_clusters(str(options["clusters"])), **estimator_settings(options))


def parse_clusters(text: str) -> Any:
    """Return the number of clusters, or "auto".

    Examples
    --------
    >>> parse_clusters("10"), parse_clusters("auto")
    (10, 'auto')
    """
    value = parse_value(text)
    if value == "auto" or type(value) is int:
        return value
    raise ValueError(f"--clusters (-k) must be a whole number of at least 1, or auto. Got {text!r} instead.")


def estimator_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the estimator's parameters that a command's options set, except the number of clusters."""
    settings: dict[str, Any] = {}
    for name, parameter in PARAMETERS.items():
        value = options.get(name)
        if value is None or value == [] or value == ():
            continue
        if name in BY_VIEW:
            value = by_view(f"--{name}", list(value))
        elif isinstance(value, str) and name not in AS_WRITTEN:
            value = parse_value(value)
        settings[parameter] = value
    return {**settings, **other_settings(options.get("setting") or [])}


def other_settings(values: Sequence[str]) -> dict[str, Any]:
    """Return the parameters given by --set; refuse unknown ones and those that have an option of their own."""
    from coterie import GuidedCoTraining

    own = ("n_clusters", "views", "store_embedding", *PARAMETERS.values())
    free = [name for name in GuidedCoTraining().get_params() if name not in own]
    found = {}
    for written in values:
        name, equals, value = written.partition("=")
        if not equals or name not in free:
            raise ValueError(f"--set takes name=value, where name is one of {', '.join(free)}. Got {written!r}.")
        found[name] = parse_value(value)
    return found


# -- the options themselves ---------------------------------------------------------------------------------------

FILES, METHOD, SHOWN = "Files", "Method", "What is shown"


def complete_files(ctx: typer.Context, args: list[str], incomplete: str) -> list[str]:
    """Return the paths that complete the typed text; a view's name before = is kept."""
    name, equals, typed = incomplete.rpartition("=")
    parent = Path(typed).parent if not typed.endswith("/") else Path(typed)
    folder = expand_home(parent)
    if not folder.is_dir():
        return []
    found = []
    for file in sorted(folder.iterdir()):
        shown = str(parent / file.name) if str(parent) != "." else file.name
        if shown.startswith(typed) and not file.name.startswith("."):
            found.append(f"{name}{equals}{shown}{'/' if file.is_dir() and file.suffix != '.zarr' else ''}")
    return found


VIEWS_HELP = (
    "The views, each a file: [name=]path[::key][[columns]]. The files of a folder are one table; in a file of several "
    "tables, such as .npz, .mat or .h5mu, each table is a view."
)

ViewFiles = Annotated[
    list[str],
    typer.Argument(metavar="VIEW", help=VIEWS_HELP, autocompletion=complete_files, show_default=False),
]
Clusters = Annotated[
    str,
    typer.Option(
        "--clusters", "-k", metavar="K|auto", help="Number of clusters; auto looks for it.", rich_help_panel=METHOD
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of row ids in text, parquet and Arrow files; rows are matched by it.", rich_help_panel=FILES
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of text files holds names.",
        rich_help_panel=FILES,
        show_default="detected",
    ),
]
NumericOnly = Annotated[
    bool,
    typer.Option(
        "--numeric-only",
        help="Leave out columns that hold no numbers, and name them in a warning.",
        rich_help_panel=FILES,
    ),
]
TargetFile = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="PATH[::KEY]",
        help="Known labels, to compare with; never used in the fit.",
        autocompletion=complete_files,
        rich_help_panel=FILES,
    ),
]
ColourBy = Annotated[
    list[str] | None,
    typer.Option(
        "--colour-by",
        "--color-by",
        metavar="[NAME=]PATH[COLUMN]",
        help="A column to colour the map by, numbers or names (repeat).",
        autocompletion=complete_files,
        rich_help_panel=FILES,
    ),
]
Text = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="PATH[COLUMN]",
        help="The rows' own texts, shown with rows and clusters.",
        autocompletion=complete_files,
        rich_help_panel=FILES,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.", rich_help_panel=METHOD)]
Landmarks = Annotated[
    str | None, typer.Option(metavar="P|auto", help="Number of landmarks.", rich_help_panel=METHOD, show_default="auto")
]
Neighbors = Annotated[
    str | None,
    typer.Option(
        metavar="Q[,Q...]|auto",
        help="Landmarks that a row is joined to, at one scale or several.",
        rich_help_panel=METHOD,
        show_default="auto",
    ),
]
Scaling = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[VIEW=]HOW",
        help="auto, block, half, standard or none: for all views, or one (repeat).",
        rich_help_panel=METHOD,
        show_default="auto",
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[VIEW=]HOW",
        help="auto, euclidean or cosine: for all views, or one (repeat).",
        rich_help_panel=METHOD,
        show_default="auto",
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[VIEW=]NUMBER",
        help="Weight of the views: auto, a number, or one for a view (repeat).",
        rich_help_panel=METHOD,
        show_default="auto",
    ),
]
Published = Annotated[bool, typer.Option("--published", help="Every setting as in the paper.", rich_help_panel=METHOD)]
MaxIter = Annotated[
    int | None, typer.Option(min=1, help="Rounds of co-training at most.", rich_help_panel=METHOD, show_default="2")
]
Device = Annotated[
    str | None,
    typer.Option(help="auto, cpu, cuda or a torch device.", rich_help_panel=METHOD, show_default="auto"),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", help="Threads.", rich_help_panel=METHOD, show_default="all cores"),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Memory that the fit may take, such as 4GB; what does not fit is kept in files.",
        rich_help_panel=METHOD,
    ),
]
WorkDir = Annotated[
    Path | None,
    typer.Option(
        "--work-dir",
        metavar="FOLDER",
        help="Keep what is done in a folder: the same command goes on after a stop or a kill.",
        rich_help_panel=METHOD,
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other parameter of GuidedCoTraining (repeat), such as basis=subspace.",
        rich_help_panel=METHOD,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="TOML",
        help="Take options from a file, by their long names; those given here win.",
        is_eager=True,
        callback=read_config,
        rich_help_panel=FILES,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that are there already.", rich_help_panel=FILES)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.", rich_help_panel=SHOWN)]
Json = Annotated[bool, typer.Option("--json", help="The result as JSON.", rich_help_panel=SHOWN)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="A line per stage and round.", rich_help_panel=SHOWN)]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug", help="Show where an error arose.", is_eager=True, callback=remember_debug, rich_help_panel=SHOWN
    ),
]

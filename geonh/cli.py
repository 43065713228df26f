"""The command line: ``geonh list``, ``geonh show NAME``, ``geonh run NAME``.

Exit codes: 0 done, 1 the integration stopped early (what exists is saved), 2 a wrong word, 130 interrupted. geonh
itself is imported inside the commands, so that help appears at once.
"""

from __future__ import annotations

import difflib
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

if TYPE_CHECKING:
    from geonh.integrators.base import Integrator
    from geonh.systems import Entry
    from geonh.trajectory import Trajectory

RULES = ("trapezoid", "midpoint", "left", "right")
RETRACTIONS = ("auto", "cayley", "exp")
MAX_NODES = 20_000_000

PIPED_WIDTH = 120

out = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Console(stderr=True, soft_wrap=True)


class _Commands(TyperGroup):
    """Commands whose usage errors are one line, not a box."""

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **kwargs)
        try:
            code = super().main(*args, standalone_mode=False, **kwargs)
        except Exception as error:
            if not hasattr(error, "format_message"):
                if type(error).__name__ == "Abort":
                    raise SystemExit(130) from None
                raise
            err.print(f"[bold red]error:[/] {escape(_one_line(error.format_message()))}")
            raise SystemExit(2) from None
        raise SystemExit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            names = self.list_commands(ctx)
            hint = _close(args[0], names) or f"; commands: {', '.join(names)}"
            _wrong(f"no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
    name="geonh",
    help="Integrate mechanical systems with nonholonomic constraints.",
    epilog="A first run: geonh run chaplygin-sphere",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from geonh.version import __version__

        print(f"geonh {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Integrate mechanical systems with nonholonomic constraints, and look at the result."""


@app.command("list")
def list_systems() -> None:
    """List the systems of the catalogue."""
    entries = _catalogue()
    table = _table("name", "space", "what it is", "source")
    table.columns[0].no_wrap = True
    table.columns[1].no_wrap = True
    for entry in entries.values():
        table.add_row(*map(escape, (entry.name, str(entry.system().group), entry.title, entry.source)))
    out.print(table)
    out.print("One of them in full: geonh show NAME. Integrate it: geonh run NAME.")


@app.command()
def show(name: Annotated[str, typer.Argument(help="Name of a system, as in `geonh list`.")]) -> None:
    """Show a system: space, constraints, parameters, default start, what is conserved."""
    entry = _entry(name)
    system = entry.system()
    group = system.group
    start = entry.start(system)
    out.print(f"[bold]{escape(entry.name)}[/]: {escape(entry.title)}")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()

    def fact(label: str, text: str) -> None:
        facts.add_row(label, escape(text))

    constraints = (
        system.distribution.annihilator(system.action.at(group.identity()), system.parameters).shape[0]
        if (system.distribution is not None)
        else 0
    )
    fact("space", f"{group}, dimension {group.dim}")
    fact("functions of", _base_in_words(system))
    fact("coordinates", ", ".join(group.point_names))
    fact("velocity ξ", ", ".join(group.velocity_names))
    fact("constraints", f"{entry.constraints}  ({constraints} of them)" if constraints else entry.constraints)
    fact("start g0", "the identity" if start.g0 is None else _numbers(group.to_vector(system.point(start.g0))))
    velocity = zip(group.velocity_names, _without_rounding(start.xi0), strict=True)
    fact("start ξ0", ", ".join(f"{n} = {v:g}" for n, v in velocity))
    fact(
        "default run",
        f"dt = {entry.dt:g} s, {entry.n_steps} steps" + (", driven by controls" if entry.controls else ""),
    )
    fact("exact solution", "known in closed form" if entry.exact else "none in the catalogue")
    fact("source", entry.source)
    if entry.notes:
        fact("notes", entry.notes)
    out.print(facts)
    if entry.parameters:
        table = _table("parameter", "default", "unit, meaning")
        for key, meaning in entry.parameters.items():
            table.add_row(key, escape(_value_text(entry.defaults.get(key))), escape(meaning))
        out.print(table)
    table = _table("conserved", "and by the integrator")
    for key, how in entry.conserved.items():
        table.add_row(escape(key), escape(how))
    for key, integral in system.first_integrals.items():
        if key not in entry.conserved:
            table.add_row(escape(key), escape(integral.note or "first integral of the motion"))
    out.print(table if table.row_count else "nothing is known to be conserved")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Name of a system, as in `geonh list`.")],
    method: Annotated[str, typer.Option(metavar="NAME", help="Integrator, as in `geonh methods`.")] = "gni",
    rule: Annotated[str | None, typer.Option(metavar="|".join(RULES), help="How ℓ is discretised.")] = None,
    retraction: Annotated[
        str | None, typer.Option(metavar="|".join(RETRACTIONS), help="Map from the algebra to the group.")
    ] = None,
    dt: Annotated[float | None, typer.Option(help="Time step in seconds; negative runs backwards.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps.")] = None,
    t0: Annotated[float, typer.Option(help="Initial time in seconds.")] = 0.0,
    save_every: Annotated[int, typer.Option(help="Keep every so many nodes.")] = 1,
    xi0: Annotated[str | None, typer.Option(metavar="A,B,…", help="Initial velocity, in place of the default.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter, e.g. --set J=0.5,0.6,0.8; may be repeated."),
    ] = None,
    output: Annotated[
        str, typer.Option("--out", metavar="DIR|FILE.nc", help="Where the NetCDF file and the figure go.")
    ] = "out",
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw no figure.")] = False,
) -> None:
    """Integrate a system; print what it kept, save a NetCDF file and a figure."""
    integrator = _integrator(method, rule=rule, retraction=retraction)
    for option, value in (("--steps", steps), ("--save-every", save_every)):
        if value is not None and value < 1:
            _wrong(f"{option} must be a positive integer, got {value}")
    entry = _entry(name)
    parameters = _parameters(entry, assignments or [])
    n_steps = entry.n_steps if steps is None else steps
    if n_steps // save_every > MAX_NODES:
        _wrong(f"--steps {n_steps} would keep more than {MAX_NODES:,} nodes; keep fewer with --save-every")
    data, picture = _destination(output, entry.name)

    import geonh as gn

    step = entry.dt if dt is None else dt
    try:
        system = entry.system(**parameters)
        start = entry.start(system)
        velocity = start.xi0 if xi0 is None else _floats(xi0, "--xi0", len(system.group.velocity_names))
        options = {"xi0": velocity, "g0": start.g0, "dt": step, "t0": t0, "controls": entry.controls}
        began = time.perf_counter()
        with _Progress(n_steps) as progress:
            trajectory = gn.solve(
                system,
                integrator,
                n_steps=n_steps,
                save_every=save_every,
                throw=False,
                progress=progress,
                **options,
            )
    except (ValueError, TypeError) as error:
        text = _one_line(str(error))
        if "does not satisfy the constraints" in text:
            nearest = ",".join(f"{v:.12g}" for v in _without_rounding(system.project(start.g0, velocity)))
            text = f"{text.split(';')[0]}\nthe nearest velocity that does: --xi0={nearest}"
        _wrong(text)
    _report(trajectory, integrator, time.perf_counter() - began)
    _save(trajectory, data, None if no_figure else picture)
    if trajectory.status is gn.Result.INTERRUPTED:
        err.print(f"[bold red]interrupted[/] at t = {trajectory.t[-1]:g} s; what exists is saved")
        raise typer.Exit(130)
    if not trajectory.success:
        err.print(f"[bold red]stopped early:[/] {escape(_one_line(trajectory.message))}")
        raise typer.Exit(1)


@app.command()
def methods(name: Annotated[str | None, typer.Argument(help="One of them, in full.")] = None) -> None:
    """List the methods: order, cost, and what each keeps. Every entry is a test."""
    from geonh.integrators.registry import methods as known

    if name is not None:
        guarantees = _integrator(name).guarantees
        out.print(f"[bold]{name}[/]: {escape(known[name].title)}; order {guarantees.order}")
        out.print(f"reference: {escape(guarantees.reference)}", highlight=False)
        out.print(f"options of geonh run: {', '.join(f'--{option}' for option in known[name].options) or 'none'}")
        return
    table = _table("method", "order", "solve", "symmetric", "constraint", "energy", "momentum", "affine", "spaces")
    table.columns[0].no_wrap = True
    for name, method in known.items():
        g = method.make().guarantees
        table.add_row(
            name,
            str(g.order),
            "implicit" if g.implicit else "explicit",
            "yes" if g.symmetric else "no",
            g.constraint,
            g.energy,
            g.momentum,
            "yes" if g.affine else "no",
            g.groups,
        )
    out.print(table)
    out.print(
        "constraint: where μξ = b holds to rounding (nodes; step: in the method's own discrete form). "
        "energy: always = any metric, potential and linear constraint; bi-invariant = at p⁻ for such an ℓ; projected = "
        "put back. momentum: horizontal = the momentum maps of horizontal symmetries. geonh methods NAME tells more."
    )


# --- reading what the user wrote ---------------------------------------------------------------------------
def _catalogue() -> dict[str, Entry]:
    from geonh.systems import catalogue

    return catalogue


def _entry(name: str) -> Entry:
    """Entry of a name; underscores and capitals are forgiven."""
    entries = _catalogue()
    found = entries.get(name) or entries.get(name.lower().replace("_", "-"))
    if found is None:
        _wrong(f"no system {name!r} in the catalogue{_close(name, entries) or '; geonh list names them all'}")
    return found


def _parameters(entry: Entry, assignments: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals or not key or not text.strip():
            _wrong(f"--set takes NAME=VALUE, got {assignment!r}")
        if key not in entry.parameters:
            names = list(entry.parameters)
            hint = _close(key, names) or (f"; it has {', '.join(names)}" if names else "; it has none")
            _wrong(f"{entry.name} has no parameter {key!r}{hint}")
        if key in found:
            _wrong(f"--set {key} is given twice")
        found[key] = _value(text.strip(), key, entry.defaults.get(key))
    return found


def _value(text: str, key: str, default: Any) -> Any:
    """A parameter's value, of the kind of its default."""
    if isinstance(default, bool):
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        return words[text.lower()] if text.lower() in words else _wrong(f"{key} must be true or false, got {text!r}")
    if isinstance(default, str):
        return text
    if default is None:
        return _floats(text, key, None) if "," in text else _floats(text, key, 1)[0]
    if isinstance(default, int | float):
        return _floats(text, key, 1)[0]
    return tuple(_floats(text, key, len(default)))


def _floats(text: str, name: str, count: int | None) -> list[float]:
    parts = [part.strip() for part in text.strip("()[] ").split(",")]
    try:
        values = [float(part) for part in parts]
    except ValueError:
        bad = next(part for part in parts if not _is_float(part))
        _wrong(f"{name} takes numbers separated by commas, got {bad!r} in {text!r}")
    if count is not None and len(values) != count:
        _wrong(f"{name} takes {count} number{'s' if count > 1 else ''}, got {len(values)}: {text}")
    return values


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _integrator(name: str, **options: str | None) -> Integrator:
    """The integrator that the words of a user mean."""
    from geonh.integrators.registry import methods as known

    if name not in known:
        _wrong(f"no method {name!r}{_close(name, known) or '; geonh methods lists them all'}")
    given = {key: value for key, value in options.items() if value is not None}
    for key, words in (("rule", RULES), ("retraction", RETRACTIONS)):
        if key in given:
            if key not in known[name].options:
                _wrong(f"--{key} is not for the method {name}")
            _known(key, given[key], words)
    return known[name].make(**given)


def _known(option: str, word: str, words: Iterable[str]) -> None:
    if word not in words:
        _wrong(f"--{option} must be one of {', '.join(words)}, got {word!r}")


def _destination(text: str, name: str) -> tuple[Path, Path]:
    """Data file and figure, in a directory that exists and can be written to."""
    path = Path(text).expanduser()
    data = path if path.suffix == ".nc" else path / f"{name}.nc"
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        probe = data.with_name(data.name + ".part")
        probe.touch()
        probe.unlink()
        if data.is_dir():
            _wrong(f"--out {text}: {data} is a directory")
    except OSError as error:
        _wrong(f"--out {text} cannot be written: {error.strerror or error}")
    return data, data.with_suffix(".png")


# --- showing -----------------------------------------------------------------------------------------------
class _Progress:
    """A progress bar on a terminal, nothing elsewhere; gone when done."""

    def __init__(self, total: int):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("integrating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
        self.task = self.bar.add_task("integrating", total=total)

    def __enter__(self) -> _Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done)


def _report(trajectory: Trajectory, integrator: Any, seconds: float) -> None:
    from geonh.plotting.invariants import invariants
    from geonh.plotting.labels import method_in_words

    a = trajectory.attributes
    steps = int(trajectory.k[-1])
    out.print(
        f"[bold]{escape(a['system'])}[/] on {escape(a['group'])}: "
        f"{method_in_words(trajectory)} (order {integrator.order}), "
        f"dt = {trajectory.dt:g} s, {steps} steps, t = {trajectory.t[0]:g} … {trajectory.t[-1]:g} s",
        highlight=False,
    )
    if a["parameters"]:
        out.print("parameters: " + escape(", ".join(f"{k} = {_value_text(v)}" for k, v in a["parameters"].items())))
    out.print(f"integrated in {seconds:.2f} s, compilation included", highlight=False)
    table = _table("quantity", "at the start", "at the end", "largest change", "relative", "known of it")
    table.columns[0].no_wrap = True
    for column in table.columns[1:5]:
        column.justify, column.no_wrap = "right", True
    for q in invariants(trajectory):
        relative = "" if q.name == "constraint residual" else f"{q.relative.max():.1e}"
        table.add_row(
            escape(q.name),
            _numbers(q.start),
            _numbers(q.end),
            f"{q.error.max():.1e}",
            relative,
            escape(q.note),
        )
    out.print(table)
    _warn_of_alternation(trajectory)


def _warn_of_alternation(trajectory: Trajectory) -> None:
    """Say when the multipliers' swing from node to node has grown to a part of the momentum that spoils the run."""
    import numpy as np

    method, system = trajectory.method, trajectory.system
    jump = np.linalg.norm(trajectory.p_minus - trajectory.p_plus, axis=1).max() / 2
    small = jump <= 0.05 * np.linalg.norm(trajectory.p, axis=1).max()
    if method is None or system is None or not method.reflects or system.distribution is None or small:
        return
    from geonh.diagnostics import alternation

    swing = alternation(trajectory)
    if swing.max() > 0.1 and swing.max() > 10 * swing[0]:
        t = trajectory.t[int(np.argmax(swing > 0.1))]
        out.print(
            f"[bold yellow]the multipliers alternate:[/] from t = {t:g} s their swing from node to node is more than a "
            "tenth of the momentum. A smaller step does not cure it, a method in quasi-velocities does: "
            "--method midpoint or gauss4",
            highlight=False,
        )


def _save(trajectory: Trajectory, data: Path, picture: Path | None) -> None:
    try:
        trajectory.save(data)
        out.print(f"saved {escape(str(data))}", highlight=False, soft_wrap=True)
        if picture is not None:
            trajectory.plot().savefig(picture, dpi=150)
            out.print(f"saved {escape(str(picture))}", highlight=False, soft_wrap=True)
    except OSError as error:
        _wrong(f"the result could not be saved: {error.strerror or error}")


def _base_in_words(system: Any) -> str:
    kind = type(system.action).__name__
    words = {
        "PointBase": "nothing (left-invariant)",
        "GroupBase": "the group element",
        "AdvectedVector": "an advected vector γ",
    }
    if kind == "ShapeBase":
        return f"the shape {', '.join(system.action.names)}"
    return words.get(kind, kind)


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column)
    return table


def _without_rounding(values: Any) -> Any:
    """Zeros in place of entries at rounding beside the largest."""
    import numpy as np

    return np.where(np.abs(values) < 1e-14 * np.abs(values).max(initial=0.0), 0.0, values)


def _numbers(values: Any) -> str:
    import numpy as np

    flat = [f"{v:.6g}" for v in np.ravel(values)]
    return flat[0] if len(flat) == 1 else "\n".join(flat) if len(flat) <= 4 else ", ".join(flat)


def _value_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(_value_text(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _close(word: str, words: Iterable[str]) -> str:
    """ "; did you mean …?" or nothing."""
    pool = list(words)
    found = difflib.get_close_matches(word.lower(), pool, n=3, cutoff=0.5)
    found = found or [w for w in pool if len(word) > 2 and word.lower() in w][:3]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip())


def _wrong(message: str) -> NoReturn:
    """Say what is wrong with the user's words and leave with exit code 2."""
    err.print(f"[bold red]error:[/] {escape(message)}", highlight=False)
    raise typer.Exit(2)

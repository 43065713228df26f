"""Stores of sweeps on the command line: made, finished, merged, described and written as NetCDF."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.markup import escape

import geonh as gn
from geonh.cli.chosen import chosen
from geonh.cli.console import err, facts_table, message_of, out, refuse, refusing, tell_saved
from geonh.cli.words import destination, floats, path_of
from geonh.ensembles import Ensemble, Sweep, merge
from geonh.ensembles.described import SweepStore
from geonh.ensembles.stores import StoreError, StoreWarning
from geonh.integrators.validity import Result
from geonh.results import formats

MOST = 10**8
"""Maximum number of values of a parameter on a grid."""


def make(words: dict[str, Any], store: str, shard: str | None, members: int | None, executor: str | None) -> None:
    """Make a store, or what is missing of it."""
    _carry_out(_sweep_of(words), path_of(store, "--store"), shard, members, executor, json.dumps(words))


def finish(path: Path) -> None:
    """Implementation of ``geonh resume`` for a store."""
    store = _store(path)
    _carry_out(_saved_sweep(store), path, None, None, None, store.about["note"])


def _sweep_of(words: dict[str, Any]) -> Sweep:
    """Sweep for command-line options."""
    one = chosen(words["name"], words["assignments"], method=words["method"], dt=words["dt"], steps=words["steps"])
    entry = one.entry
    random, varied = words["random"], [_range(entry, text) for text in words["vary"] or []]
    named = [key for key, *_ in varied] + [text.partition("=")[0] for text in words["assignments"] or []]
    for key in sorted({key for key in named if named.count(key) > 1}):
        refuse(f"{key} is named more than once by --vary and --set")
    for option, given in (("--spread", words["spread"] != 0.0), ("--seed", words["seed"] is not None)):
        if random is None and given:
            refuse(f"{option} goes with --random MEMBERS")
    if not varied and (random is None or not words["spread"]):
        refuse(
            "nothing differs between members: give --vary NAME=A:B:N, or --random MEMBERS with --vary NAME=A:B or "
            "--spread"
        )
    if random is not None and random < 1:
        refuse(f"--random must be a positive number of members, got {random}")
    if not 0 <= words["spread"] < np.inf:
        refuse(f"--spread must be a standard deviation, 0 or greater, got {words['spread']}")
    import scipy.stats

    values: dict[str, Any] = {}
    for key, low, high, count in varied:
        if (random is None) != (count is not None):
            refuse(f"--vary {key}=A:B:N takes N without --random, and none with it")
        drawn = scipy.stats.uniform(low, np.subtract(high, low))
        values[key] = drawn if count is None else np.linspace(low, high, count)
    with refusing(ValueError, TypeError):
        xi0 = one.start.xi0
        if words["spread"]:
            xi0 = scipy.stats.norm(np.asarray(xi0), words["spread"])
        return Sweep.of(
            one.system,
            one.integrator,
            **one.begin | {"xi0": xi0},
            parameters=values,
            n_steps=one.n_steps,
            combine="zip" if random is not None else "product",
            members=random,
            seed=words["seed"] or 0,
            project=True,
            save_every=words["save_every"],
            observables=words["observe"].split(",") if words["observe"] else None,
        )


def _range(entry: Any, text: str) -> tuple[str, Any, Any, int | None]:
    """Parse the range of a parameter: name, first and last value, and number of values."""
    key, _, range_ = text.partition("=")
    bounds = range_.split(":")
    if key not in entry.parameters:
        refuse(f"{entry.name} has no parameter {key!r}; it has {', '.join(entry.parameters) or 'none'}")
    if len(bounds) not in (2, 3):
        refuse(f"--vary takes NAME=A:B or NAME=A:B:N, got {text!r}")
    size = np.size(entry.defaults.get(key))
    low, high = (np.array(floats(bound, f"--vary {key}", size)) for bound in bounds[:2])
    count = None
    if len(bounds) == 3:
        if not bounds[2].isdecimal() or not 1 <= int(bounds[2]) <= MOST:
            refuse(f"--vary {text}: N must be a positive integer, {MOST:,} at most")
        count = int(bounds[2])
    return (key, low, high, count) if size > 1 else (key, low[0], high[0], count)


def _part(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        refuse(f"--shard takes I/N with 0 ≤ I < N, got {text!r}")
    return int(match[1]), int(match[2])


def _carry_out(
    sweep: Sweep, path: Path, shard: str | None, members: int | None, executor: str | None, note: str
) -> None:
    """Compute missing shards, and report."""
    part = _part(shard)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", StoreWarning)
            sweep.run(path, shard=members, only=part, executor=executor, progress=True, note=note)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        refuse(str(error) if isinstance(error, StoreError) else message_of(error))
    for warning in caught:
        if "again:" in str(warning.message):
            err.print(escape(str(warning.message)), highlight=False)
    store = _store(path)
    missing = [i for i in store.missing() if part is None or i % part[1] == part[0]]
    show_store(path)
    if missing:
        raise typer.Exit(130)


def show_store(path: Path) -> None:
    """Show the content of a store, its missing shards, and the command that finishes it."""
    store = _store(path)
    about, missing, faults = store.about, store.missing(), store.faults(deep=True)
    configuration = about["configuration"]
    with refusing(ValueError, OSError):
        system = store.first().attributes
    records = [store.record(i) or {} for i in range(store.shards) if i not in missing and i not in faults]
    failed = sum(record.get("failed", 0) for record in records)
    is_run, nodes = about["what"] == "run", store.array(about["arrays"][0]).shape[0]
    count, entries = (nodes, "nodes") if is_run else (configuration["members"], "members")
    last = count - (store.shards - 1) * about["shard"]
    share = f"{about['shard']:,} {entries} each" + ("" if last == about["shard"] else f", {last:,} in the last")
    share = share if store.shards > 1 else f"{count:,} {entries}"
    steps = (nodes - 1) * configuration["save_every"] if is_run else configuration["n_steps"]
    rows = {
        "system": f"{system['system']} on {system['group']}",
        "members": f"{configuration['members']:,}, differing in {', '.join(configuration['what differs'])}",
        "method": configuration["method"],
        "steps": f"{steps:,}, every {configuration['save_every']:,} kept",
        "kept": ", ".join(name for name, _ in configuration["observables"]) or "statistics only",
        "shards": f"{len(records)} of {store.shards} finished, {share}",
        "failed": f"{failed:,} members did not reach the end" if failed else "no member",
        "size": f"{sum(size for record in records for size, _ in record['files'].values()):,} bytes",
        "written by": f"geonh {configuration['geonh']}",
    }
    if is_run:
        status = max((record["status"] for record in records), default=0)
        rows |= {"members": "one run", "failed": Result(status).message if status else "no step"}
    out.print(facts_table(rows.items()))
    for shard, fault in faults.items():
        out.print(f"[bold red]shard {shard} is damaged:[/] {escape(fault)}", highlight=False)
    if missing or faults:
        way = f"geonh resume {path}" if _saved_options(store) else f"run({str(path)!r}) of the Sweep, in Python"
        out.print(f"To finish it: {escape(way)}", highlight=False, soft_wrap=True)


def put_together(target: str, sources: list[str]) -> None:
    """Put stores of parts of one sweep together."""
    with refusing(ValueError, OSError):
        merge(path_of(target, "TARGET"), [path_of(source, "SOURCE") for source in sources])
    show_store(Path(target))


def write(file: str, output: str, member: int | None) -> None:
    """Write a store, or a member of it, as NetCDF."""
    path = path_of(file, "FILE")
    store = _store(path)
    target, _ = destination(output, "export")
    with refusing(ValueError, OSError, AttributeError):
        if member is None:
            for shard, fault in store.faults(deep=True).items():
                refuse(f"shard {shard} is damaged, {fault}: run the sweep again to repair it")
            formats.write(gn.open_store(path), target)
        else:
            size = store.about["configuration"]["members"]
            if not 0 <= member < size:
                refuse(f"--member must be one of 0 … {size - 1}, got {member}")
            if member // store.about["shard"] in store.missing():
                refuse(f"member {member} is in a shard that is missing: geonh resume {path} computes it")
            one: Ensemble = _saved_sweep(store).load(path, member, member + 1)
            one[0].save(target)
    tell_saved(target)


def _saved_sweep(store: SweepStore) -> Sweep:
    words = _saved_options(store)
    if words is None:
        refuse(f"{store.path} was made in Python: run its Sweep there, Sweep.of(...).run({str(store.path)!r})")
    try:
        return _sweep_of(words)
    except (KeyError, TypeError, AttributeError) as error:  # not written by geonh sweep
        refuse(f"{store.path} is damaged: the words of geonh sweep in it are none: {message_of(error)}")


def _saved_options(store: SweepStore) -> dict[str, Any] | None:
    """Command-line options that created the store; None if it was created in Python."""
    try:
        words = json.loads(store.about["note"])
    except ValueError:
        return None
    return words if isinstance(words, dict) else None


def _store(path: Path) -> SweepStore:
    with refusing(StoreError, OSError):
        return SweepStore(path)

"""``geonh sweep``, ``geonh merge``, ``geonh export``: commands for stores and files."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from geonh.cli.options import Dt, FileOrStore, Steps
from geonh.cli.signals import interruptible

Executor = Annotated[
    str | None, typer.Option(metavar="threads|processes", help="What computes the shards; left out, one after another.")
]
ShardOption = Annotated[
    str | None, typer.Option("--shard", metavar="I/N", help="Of an array of N jobs, the shards of job I = 0 … N − 1.")
]


@interruptible
def sweep(
    name: Annotated[str, typer.Argument(help="A system of `geonh list`, or your own: FILE.py:NAME.")],
    store: Annotated[str, typer.Option(metavar="FOLDER.zarr", help="Where the result goes; one begun is finished.")],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=A:B[:N]",
            help="A parameter from A to B: N values, each with each of the others, or random ones with --random; for "
            "vectors --vary J=.5,.6,.8:1,1,1:5.",
        ),
    ] = None,
    random: Annotated[int | None, typer.Option(metavar="MEMBERS", help="Draw so many members, uniformly.")] = None,
    spread: Annotated[
        float, typer.Option(help="With --random, the standard deviation of the initial velocity about the default.")
    ] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Of --random; 0 when left out.")] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="Integrator, as in `geonh methods`.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter for all members.")
    ] = None,
    dt: Dt = None,
    steps: Steps = None,
    save_every: Annotated[int | None, typer.Option(help="Keep every so many nodes; left out, first and last.")] = None,
    observe: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Keep these in place of the nodes, e.g. energy,xi.")
    ] = None,
    shard: ShardOption = None,
    shard_members: Annotated[int | None, typer.Option(help="Members of a shard; by its size when left out.")] = None,
    executor: Executor = None,
) -> None:
    """Integrate a system for many parameters and starts, into a store; run again, it does what is missing."""
    words = {key: value for key, value in locals().items() if key not in ("store", "shard", "executor")}
    from geonh.cli import stores

    stores.make(words, store, shard, shard_members, executor)


@interruptible
def merge_stores(
    target: Annotated[str, typer.Argument(help="The store to complete; made if it is not there.")],
    sources: Annotated[list[str], typer.Argument(help="Stores of jobs that ran parts of the same sweep.")],
) -> None:
    """Put stores of parts of one sweep together."""
    from geonh.cli import stores

    stores.put_together(target, sources)


@interruptible
def export(
    file: FileOrStore,
    output: Annotated[
        str,
        typer.Option("--out", metavar="FILE.csv|.mcap|.nc", help="The file; .mcap is for Foxglove, .nc for stores."),
    ],
    member: Annotated[
        int | None, typer.Option(help="One member, as a file of `geonh run`; left out, all arrays in one file.")
    ] = None,
) -> None:
    """Write a run as CSV or MCAP; a store, or a member of it, as NetCDF."""
    from geonh.cli import running, stores
    from geonh.cli.words import path_of

    if os.path.isdir(path_of(file, "FILE")):
        stores.write(file, output, member)
    else:
        running.convert(file, output)

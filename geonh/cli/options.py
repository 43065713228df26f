"""Options and arguments that several commands have. Importing this imports no JAX, as for all modules with commands:
``geonh --help`` is to be there at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

RULES = ("trapezoid", "midpoint", "left", "right")
RETRACTIONS = ("auto", "cayley", "exp")

SystemName = Annotated[
    str, typer.Argument(help="A system of `geonh list`, or your own: FILE.py:NAME, a System or a function of it.")
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", metavar="NAME", help="Integrator, as in `geonh methods`; left out, what suits the system."
    ),
]
Rule = Annotated[str | None, typer.Option("--rule", metavar="|".join(RULES), help="How ℓ is discretised.")]
Retraction = Annotated[
    str | None,
    typer.Option("--retraction", metavar="|".join(RETRACTIONS), help="Map from the algebra to the group."),
]
Velocity = Annotated[
    str | None, typer.Option("--xi0", metavar="A,B,…", help="Initial velocity, in place of the default.")
]
Point = Annotated[
    str | None,
    typer.Option("--g0", metavar="A,B,…", help="Initial group element, the coordinates of `geonh show`."),
]
Dt = Annotated[float | None, typer.Option(help="Time step in seconds.")]
Steps = Annotated[int | None, typer.Option(help="Number of steps.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter, e.g. --set J=0.5,0.6,0.8, or a matrix by rows, --set 'J=1,0,0;0,2,0;0,0,2'.",
    ),
]
FileOrStore = Annotated[
    str, typer.Argument(help="A file of `geonh run` or of save() in Python, or a store of a sweep.")
]
SystemOption = Annotated[
    str | None, typer.Option("--system", metavar="NAME|FILE.py:NAME", help="The system; needed where it is your own.")
]

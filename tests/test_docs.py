"""The table of methods in the documentation is what the methods declare."""

import runpy
from pathlib import Path

import geonh as gn

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
BEGIN, END = "up to date and says how to renew it -->\n", "<!-- end of table -->"


def table():
    rows = [
        "| method | description | order | solve | symmetric | node | constraint | energy | momentum | affine "
        "| nonlinear | multiplier forces | spaces | steps |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, method in gn.methods.items():
        g = method.make().guarantees
        kind, symmetric, affine = ("implicit" if g.implicit else "explicit"), g.symmetric, g.affine
        words: tuple = (g.order, kind, symmetric, g.node, g.constraint, g.energy, g.momentum, affine)
        words += (g.nonlinear, g.multiplier_forces, g.groups, g.steps)
        said = ("yes" if w is True else "no" if w is False else str(w) for w in words)
        rows.append(f"| `{name}` | {method.title} | {' | '.join(said)} |")
    return "\n".join(rows) + "\n"


def test_the_table_of_methods_is_up_to_date():
    text = PAGE.read_text()
    assert text.split(BEGIN)[1].split(END)[0] == table(), "run: python tests/test_docs.py"


def test_papers_and_scripts_of_their_figures_are_there(capsys):
    figures = runpy.run_path(str(PAGE.parent / "figures.py"))
    papers = (PAGE.parent / "references.bib").read_text(encoding="utf-8")
    gallery = (PAGE.parent / "gallery" / "README.rst").read_text(encoding="utf-8")
    for paper, scripts in figures["FIGURES"].items():
        assert f"{{{paper}," in papers
        assert paper in gallery
        assert all(len(list(figures["GALLERY"].glob(f"*/{script}.py"))) == 1 for script in scripts)
    assert figures["main"](["Newton1687"]) == 2
    assert "of the papers Ferraro2008, " in capsys.readouterr().err


if __name__ == "__main__":
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    PAGE.write_text(head + BEGIN + table() + END + rest.split(END)[1])

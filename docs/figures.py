"""Make the figures of a paper anew, with the assertions on its numbers: ``python docs/figures.py Ferraro2008 figures/``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib as mpl

GALLERY = Path(__file__).parent / "gallery"
FIGURES = {
    "Ferraro2008": ("plot_01_particle", "plot_02_snakeboard", "plot_03_sleigh"),
    "MartinDeDiego2008": ("plot_04_beanie", "plot_05_rolling_ball"),
    "Ferraro2015": ("plot_10_orders", "plot_11_chaplygin_sphere"),
    "Chang2019": ("plot_06_suslov_feedback", "plot_07_knife_edge", "plot_08_other_bodies", "plot_09_oscillator"),
    "Modin2020": ("plot_24_reversible",),
    "Meijaard2007": ("plot_28_bicycle",),
    "Kane1982": ("plot_26_rattleback",),
    "Ostrowski1998": ("plot_30_gaits",),
}
"""Scripts of the gallery by the paper, as the bibliography names it."""


def make(paper: str, folder: Path) -> list[Path]:
    """Run the scripts of a paper, and write each of their figures as PNG."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name in FIGURES[paper]:
        (script,) = GALLERY.glob(f"*/{name}.py")
        runpy.run_path(str(script))
        for number in plt.get_fignums():
            path = folder / f"{name.removeprefix('plot_')}-{number}.png"
            plt.figure(number).savefig(path, dpi=150)
            made.append(path)
        plt.close("all")
    return made


def main(words: list[str]) -> int:
    """Make the figures of the paper named first, in the folder named second."""
    if not words or words[0] not in FIGURES:
        print(f"python docs/figures.py PAPER [FOLDER], of the papers {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    mpl.use("agg")
    for path in make(words[0], Path(*words[1:2])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How figures of the gallery look: colours that colour-blind readers tell apart, numbers without offsets."""

from cycler import cycler

from geonh.plotting.figures import COLOURS


def reset(gallery_conf, file):
    """Before each script: matplotlib's defaults but for these."""
    import matplotlib as mpl

    mpl.rcParams["axes.prop_cycle"] = cycler(color=COLOURS)
    mpl.rcParams["axes.formatter.useoffset"] = False
    mpl.rcParams["axes.formatter.limits"] = (-3, 4)

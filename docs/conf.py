"""The documentation site. One command builds all of it: ``sphinx-build -W docs build/site`` (``pip install '.[docs]'``)."""

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
warnings.filterwarnings("ignore", category=DeprecationWarning)

import live  # noqa: E402
import pages  # noqa: E402
from sphinx_gallery.sorting import FileNameSortKey  # noqa: E402

import geonh  # noqa: E402

project = "geonh"
author = "the authors of geonh"
release = version = geonh.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "inventory",
    "sphinx_codeautolink",
    "sphinxcontrib.bibtex",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = [
    "gallery/*",
    "_ext",
    "build",
    "**sg_execution_times.rst",  # whose tables come from other servers
    "generated/gallery/**.ipynb",
]
templates_path: list[str] = []
html_theme = "pydata_sphinx_theme"
html_title = "geonh"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "header_links_before_dropdown": 8,
    "show_nav_level": 1,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}
html_copy_source = html_show_sourcelink = False

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "alpha"

suppress_warnings = ["config.cache"]
suppress_warnings += ["codeautolink.parse_block"]  # signatures on the pages of the API are no programs
suppress_warnings += ["codeautolink.match_name"]  # the gallery's code has links of its own
codeautolink_concat_default = True  # the cells of a page are one program
codeautolink_search_css_classes = ["highlight-ipython3", "highlight-ipython", "highlight-python"]

LONG = "trailers|kerb|skidding_car|slipping_snakeboard|thrown_coin|ball_off|tippe_top|work_precision"
"""Pages of the gallery that take ten seconds and more."""
gallery = os.environ.get("GEONH_GALLERY", "all")  # "quick" is without these, "none" runs no page
sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["generated/gallery"],
    "filename_pattern": rf"^(?!.*({LONG})).*\.py$" if gallery == "quick" else r"\.py$",
    "within_subsection_order": FileNameSortKey,
    "capture_repr": ("_repr_html_",),  # not what matplotlib's functions return
    "thumbnail_size": (480, 320),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "plot_gallery": gallery != "none",
    "min_reported_time": 0,
    "reset_modules": ("matplotlib", "looks.reset"),
}


def setup(app):
    """Make the pages that come from data."""
    app.add_directive("live", live.Live)
    app.connect("builder-inited", live.start, priority=1)
    app.connect("builder-inited", pages.make)
    app.connect("env-updated", live.wait)

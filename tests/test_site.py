"""The documentation site builds with warnings as errors, and its links lead somewhere: on demand, with -m slow."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))


class Links(HTMLParser):
    """Where a page points, and what in it can be pointed at."""

    def __init__(self):
        super().__init__()
        self.found, self.ids = [], set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id"))
        self.found += [given[key] for key in ("href", "src") if given.get(key)]


def broken_links(site):
    pages = {}
    for path in sorted(site.rglob("*.html")):
        if "_static" not in path.parts:
            pages[path] = Links()
            pages[path].feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, page in pages.items():
        for link in page.found:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"GEONH_PAGES": "words", "GEONH_GALLERY": "none"}, {"GEONH_GALLERY": "quick"}, {}],
    ids=["words", "most", "all"],
)
def test_the_site_builds_and_its_links_lead_somewhere(options, tmp_path):
    pytest.importorskip("sphinx", reason="the site needs the extra: pip install '.[docs]'")
    environment = dict(os.environ) | options
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "--keep-going", "-d", str(tmp_path / "trees"), "docs"]
    done = subprocess.run([*command, str(tmp_path / "site")], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    broken = broken_links(tmp_path / "site")
    remote = re.compile(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?://(?!.*rel="canonical")')
    pages = [path for path in (tmp_path / "site").rglob("*.html") if "_static" not in path.parts]
    assert [path for path in pages if remote.search(path.read_text(encoding="utf-8"))] == []  # all of it is here
    assert '<img alt="' in (tmp_path / "site" / "tutorial.html").read_text(encoding="utf-8")  # the figure, not its repr
    assert [
        link for link in broken if "GEONH_PAGES" not in options or "_static/systems/" not in link
    ] == []  # runs make those


def test_every_reference_is_in_the_bibliography():
    from bibliography import keys_of

    import geonh as gn

    sources = [method.make().guarantees.reference for method in gn.methods.values()]
    sources += [entry.source for entry in gn.systems.catalogue.values()]
    works = {words: len(re.findall(r"\b(?:1[89]|20)\d\d\b", words)) for words in sources}
    assert [words for words, n in works.items() if len(keys_of(words)) != n] == []
    assert keys_of("Ferraro, Iglesias, Martín de Diego 2008, eq. 4; 2015") == ["Ferraro2008", "Ferraro2015"]


def test_sections_of_references_have_the_keys_of_the_bibliography():
    """Each class of methods names at least the works of its guarantees, under keys of their first author and year."""
    pytest.importorskip("numpydoc", reason="the site needs the extra: pip install '.[docs]'")
    from api import read, references
    from bibliography import entries, keys_of

    import geonh as gn

    known = {key: (names, year) for key, names, year in entries()}
    for method in gn.methods.values():
        made = method.make()
        cited = {line.split("{cite}`")[1][:-1]: line for line in references(read(type(made))["References"])}
        assert set(keys_of(made.guarantees.reference)) <= set(cited)
        for key, line in cited.items():
            names, year = known[key]
            assert names[0] in line
            assert f"({year})" in line


def test_every_section_of_the_mathematics_that_is_named_is_there():
    sections = set(re.findall(r"^## (\d+)\.", (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8"), re.M))
    files = [*(ROOT / "geonh").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    named = [(f.name, n) for f in files for n in re.findall(r"mathematics\.md §(\d+)", f.read_text(encoding="utf-8"))]
    assert named
    assert [one for one in named if one[1] not in sections] == []


def test_docstrings_keep_their_symbols():
    from markup import escaped, prose

    assert escaped("|p| and ad*_ξ p, P*p⁺ = P*p⁻") == r"\|p\| and ad\*\_ξ p, P\*p⁺ = P\*p⁻"
    assert escaped("see *a title* of ``x_k``") == "see *a title* of `x_k`"
    assert prose("One.\n\n    a_k = b\n\nTwo.") == "One.\n\n```text\na_k = b\n```\n\nTwo."

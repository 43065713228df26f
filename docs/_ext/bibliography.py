"""References in the words of the code, such as "Ferraro, Iglesias, Martín de Diego 2008, eq. 4", as keys of the BibTeX."""

import re
from pathlib import Path

BIB = Path(__file__).parents[1] / "references.bib"


def entries():
    """(key, family names, year) of each entry."""
    found = []
    for key, body in re.findall(r"@\w+\{(\w+),(.*?)\n\}", BIB.read_text(encoding="utf-8"), flags=re.S):
        authors = re.search(r"author\s*=\s*\{(.*?)\},?\n", body, flags=re.S).group(1)
        year = re.search(r"year\s*=\s*\{(\d+)\}", body).group(1)
        names = [name.split(",")[0].strip(" {}") for name in authors.split(" and ")]
        found.append((key, names, year))
    return found


def keys_of(words):
    """Keys of the works that a reference names, by the author it begins with and the year; after a semicolon it may have
    the author before, and words with a colon ahead of the names."""
    found, family = [], None
    for clause in re.split(r"; ", words):
        years = re.findall(r"\b(1[89]\d\d|20\d\d)\b", clause)
        said = clause.rpartition(": ")[2]
        for key, names, year in entries():
            begins = re.match(rf"{re.escape(names[0])}\b", said) and all(
                re.search(rf"\b{re.escape(n)}\b", said) for n in names[1:2] if "et al" not in said
            )
            nameless = family == names[0] and not re.search(r"[A-Z]\w+", said.split(year)[0])
            if year in years and (begins or nameless):
                found.append(key)
                family = names[0]
    return list(dict.fromkeys(found))


def cited(words):
    """The words, with citations behind them."""
    keys = keys_of(words)
    return f"{words} {{cite}}`{','.join(keys)}`" if keys else words

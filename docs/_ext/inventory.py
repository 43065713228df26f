"""The names of the API in Sphinx's inventory, by which code on the pages links to them, and other projects' pages."""

import inspect

import api
from sphinx.domains.python import ObjectEntry


def fill(app, env):
    """Enter every public name, by each path that leads to it, and the members of classes."""
    objects = env.get_domain("py").objects
    for package in api.PACKAGES:
        for name, made in api.named(package).items():
            home = "geonh" if api.named("geonh").get(name) is made else package
            page = f"generated/api/{home}"
            places = {title: place for _, place, title in env.metadata[page]["myst_slugs"].values()}
            kinds = {name: "class" if inspect.isclass(made) else "function"}
            kinds |= {f"{name}.{key}": "method" for key in (api.members(made) if inspect.isclass(made) else ())}
            for key, kind in kinds.items():
                for path in (f"{package}.{key}", f"{made.__module__}.{key}"):
                    objects[path] = ObjectEntry(page, places[key], kind, False)


def setup(app):
    """Fill the inventory before links are made from it."""
    app.connect("env-updated", fill, priority=400)
    return {"parallel_read_safe": True}

"""The interface of the engine is the one that its page describes; what is no lowering is refused by name."""

from pathlib import Path

import jax.numpy as jnp
import pytest

import geonh as gn
from geonh import engine
from geonh.engine import Named
from geonh.engine.lowering import register_lowering

PAGE = Path(__file__).parents[2] / "docs" / "engine.md"


def test_every_name_of_the_interface_is_described():
    section = PAGE.read_text(encoding="utf-8").split("## Interface")[1].split("\n## ")[0]
    assert [name for name in engine.__all__ if f"`{name}" not in section] == []


def test_a_lowering_that_is_none_is_refused_by_name():
    @Named
    def doubled(x):
        return x + x

    def rule(emitter, equation, inputs):
        return [emitter.elementwize(lambda entry: emitter.add(entry, entry), inputs, equation)]

    with pytest.raises(TypeError, match=r"primitive must be a Primitive of JAX, got .*; it has one, \.primitive"):
        register_lowering(doubled, rule)
    with pytest.raises(TypeError, match="rule must be a function, got 'rule'"):
        register_lowering(doubled.primitive, "rule")
    with pytest.raises(TypeError, match="in_numpy must be a function, got 3"):
        register_lowering(doubled.primitive, rule, in_numpy=3)
    with pytest.raises(
        ValueError, match=r"degree must be one of \['linear in each', 'solution'\] or None, got 'linear'"
    ):
        register_lowering(doubled.primitive, rule, degree="linear")
    register_lowering(doubled.primitive, rule)
    system = gn.System(gn.groups.Translations(1), metric=[1.0], potential=lambda x: jnp.sum(doubled(x) ** 2))
    with pytest.raises(AttributeError, match="elementwize") as failed:
        gn.solve(system, xi0=[1.0], dt=0.1, n_steps=2)
    assert any("register_lowering has for geonh_doubled" in note for note in failed.value.__notes__)

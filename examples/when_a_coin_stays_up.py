"""Stability of a coin: rolling upright above the rate √(g/3r), spinning on its rim above √(4g/5r).

Root loci and a stability map of relative equilibria on SE(3), without coordinates or linearisation by hand.
"""

import numpy as np

from geonh import rolling
from geonh.analysis import root_locus, stability_map

RADIUS, MASS = 0.012, 0.008
coin = rolling(
    rolling.disc(RADIUS, axis=(0, 1, 0)), np.array([1, 2, 1]) * MASS * RADIUS**2 / 4, MASS, gravity=9.81, name="coin"
)
rates = np.linspace(2.0, 40.0, 39)

onwards = root_locus(coin, rates, lambda rate: rolling.start(coin, omega=[0.0, rate, 0.0]))
on_the_rim = root_locus(coin, rates, lambda rate: rolling.start(coin, omega=[0.0, 0.0, rate]))
for locus, factor in ((onwards, 1 / 3), (on_the_rim, 4 / 5)):
    up = locus.values[locus.growth < 1e-6].min()
    print(f"stable from {up:.0f} rad/s, theory {np.sqrt(factor * 9.81 / RADIUS):.2f}")
onwards.plot("rolling, rad/s").savefig("coin.png")

# Over rate and gravity
gravities = np.linspace(1.0, 12.0, 12)
found = stability_map(
    coin, rates, gravities, lambda rate, g: rolling.start(coin, omega=[0.0, rate, 0.0]), parameters=(None, "g")
)
theory = rates[:, None] > np.sqrt(gravities / (3 * RADIUS))
print(f"{np.mean(found.stable(1e-6) == theory):.1%} of the map agrees with theory")
assert np.all(found.stable(1e-6) == theory)
found.plot(("rolling, rad/s", "gravity, m/s²")).savefig("coins.png")

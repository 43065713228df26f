from geonh.groups.base import LieGroup
from geonh.groups.translations import Torus, Translations
def as_group(space): return space

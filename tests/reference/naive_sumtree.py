"""The obvious sum tree: a list of masses and a linear scan."""

import numpy as np


class NaiveSumTree:
    def __init__(self, num_leaves):
        self.masses = np.zeros(num_leaves)

    def write(self, places, masses):
        """Of a place that is named twice the larger mass stays."""
        for place in set(places):
            self.masses[place] = max(mass for p, mass in zip(places, masses, strict=True) if p == place)

    def total(self):
        return sum(self.masses)

    def choose(self, uniform):
        """The first place at which the running sum passes the share `uniform` of the total."""
        goal, running = uniform * self.total(), 0.0
        for place, mass in enumerate(self.masses):
            running += mass
            if mass > 0 and running > goal:
                return place
        return int(np.flatnonzero(self.masses)[-1])

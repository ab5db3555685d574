"""The obvious replay: a list of rows per lane, and loops. The oracle of replay/ring.py."""

from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    number: int
    observation: np.ndarray
    action: int
    reward: float
    discount: float
    last: bool


class NaiveTransition(NamedTuple):
    observation: np.ndarray
    action: int
    reward: float
    discount: float
    next_observation: np.ndarray


class NaiveReplay:
    """Row t of a lane is (o_t, a_t, r_t, discount_t, last_t), reward and discount on arrival; the newest C are kept."""

    def __init__(self, capacity: int, num_lanes: int, gamma: float, n_step: int, frame_stack: int):
        self.capacity, self.gamma, self.n_step, self.frame_stack = capacity, gamma, n_step, frame_stack
        self.lanes: list[list[Row]] = [[] for _ in range(num_lanes)]
        self.num_rows = 0

    def add(self, observation, action, reward, discount, last) -> None:
        """One row for every lane: the arguments have a leading axis of lanes."""
        for lane, rows in enumerate(self.lanes):
            new = (np.array(observation[lane]), int(action[lane]), float(reward[lane]), float(discount[lane]))
            rows.append(Row(self.num_rows, *new, bool(last[lane])))
            if len(rows) > self.capacity:
                rows.pop(0)
        self.num_rows += 1

    def starts(self) -> set[tuple[int, int]]:
        """(row, lane) that is kept and not `last`, with all frames of its stack and all its n arrivals kept as well."""
        valid = set()
        for lane, rows in enumerate(self.lanes):
            kept = {row.number for row in rows}
            for row in rows:
                frames = [row.number - back for back in range(self.frame_stack)]
                arrivals = [row.number + 1 + ahead for ahead in range(self.n_step)]
                frames_known = all(number < 0 or number in kept for number in frames)  # nothing was before row 0
                if not row.last and frames_known and all(number in kept for number in arrivals):
                    valid.add((row.number, lane))
        return valid

    def transition(self, number: int, lane: int) -> NaiveTransition:
        start = self._row(number, lane)
        total, weight = 0.0, 1.0
        for _ in range(self.n_step):
            number += 1
            arrival = self._row(number, lane)
            total += weight * arrival.reward
            weight *= self.gamma
            if arrival.discount == 0 or arrival.last:
                break
        return NaiveTransition(
            observation=self.stack(start.number, lane),
            action=start.action,
            reward=total,
            discount=weight * arrival.discount,
            next_observation=self.stack(number, lane),
        )

    def stack(self, number: int, lane: int) -> np.ndarray:
        """The newest frames of the row's episode, newest last on a new axis; zeros before its first frame."""
        newest = self._row(number, lane).observation
        if self.frame_stack == 1:
            return newest
        frames = [newest]
        while len(frames) < self.frame_stack:
            number -= 1
            if number < 0 or self._row(number, lane).last:
                break
            frames.insert(0, self._row(number, lane).observation)
        while len(frames) < self.frame_stack:
            frames.insert(0, np.zeros_like(newest))
        return np.stack(frames, axis=-1)

    def _row(self, number: int, lane: int) -> Row:
        return next(row for row in self.lanes[lane] if row.number == number)

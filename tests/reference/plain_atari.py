"""Atari preprocessing as its papers describe it, one emulator and one frame at a time (Mnih et al. 2015, methods)."""

import ale_py
import cv2
import numpy as np


class PlainAtari:
    """84x84 grey frames: the maximum of the last two of four, resized by area."""

    def __init__(self, game, sticky_probability=0.0, frame_skip=4, full_action_space=False):
        ale = ale_py.ALEInterface()
        ale.setFloat("repeat_action_probability", sticky_probability)
        ale.setInt("random_seed", 0)
        ale.loadROM(ale_py.roms.get_rom_path(game))
        self.ale, self._frame_skip = ale, frame_skip
        self._actions = ale.getLegalActionSet() if full_action_space else ale.getMinimalActionSet()

    def reset(self):
        self.ale.reset_game()
        return self._resize(self._grey())

    def step(self, action):
        reward, frames = 0, []
        for _ in range(self._frame_skip):
            reward += self.ale.act(self._actions[action])
            frames.append(self._grey())
            if self.ale.game_over():
                break
        return self._resize(np.maximum(*frames[-2:]) if len(frames) > 1 else frames[-1]), reward, self.ale.game_over()

    def _grey(self):
        return self.ale.getScreenGrayscale()

    def _resize(self, frame):
        return cv2.resize(frame, (84, 84), interpolation=cv2.INTER_AREA)

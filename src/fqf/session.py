"""One program from its start, or from its last checkpoint, to its end."""

import contextlib
import math
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fqf.checkpoint import Checkpoints, remove_all
from fqf.config import RunConfig, to_toml
from fqf.drivers import finished_episodes, metrics_row, seed_from
from fqf.errors import Diverged, Stopped, UserError
from fqf.evaluation import summarize
from fqf.formats import Damaged, believed, sha256
from fqf.ledger import agent_steps, new_ledger, periods_played, read_ledger
from fqf.parts import Parts
from fqf.policy import Policy
from fqf.progress import Progress
from fqf.resources import give_back_memory
from fqf.results import Run, write_results
from fqf.rundir import RunDirectory, read_marks
from fqf.schedule import Chunk, schedule

RETRY_SECONDS = 60


class Pace(NamedTuple):
    """How often to save; whichever comes first. Results do not depend on it."""

    minutes: float
    steps: int
    """Agent steps; 0: by the clock alone."""

    def is_due(self, seconds: float, steps: int) -> bool:
        return seconds >= 60 * self.minutes or 0 < self.steps <= steps


class Surroundings(NamedTuple):
    """What all groups of a launch share."""

    parts: Parts
    facts: dict[str, Any]
    """Which code runs where."""
    progress: Progress
    stop: threading.Event
    """Set when the user, or another seed's failure, ends the launch: save, and end."""


class Session:
    """Some seeds in one program, and everything that is written about them.

    Between two chunks a run is its `RunState`, the number of chunks played, and a little that Python counts. That, and
    how far the logs have got, is a checkpoint. An evaluation that is due after the chunk has not yet happened in it.
    """

    def __init__(
        self,
        configs: Sequence[RunConfig[Any, Any]],
        directories: Sequence[RunDirectory],
        pace: Pace,
        around: Surroundings,
    ) -> None:
        self._configs, self._directories, self._pace, self._around = configs, directories, pace, around
        self._parts, self._chunks = around.parts, schedule(configs[0])
        seeds = jnp.array([config.seed for config in configs])
        keys = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(seeds)
        self._run_keys, self._evaluation_keys = jnp.swapaxes(keys, 0, 1)

    def begin(self) -> None:
        self._compile()
        for directory in self._directories:
            directory.open({}, 0, 0.0)
        self._state = self._parts.driver.init(self._run_keys)
        self._ledger = new_ledger(self._configs)
        self._checkpoints, self._saved_at = self._no_checkpoints(), (time.monotonic(), 0)

    def _compile(self) -> None:
        """And what is asked of JAX between chunks is asked once: its programs are small, but the compiler that comes in
        for the first question would need room beside the replay (docs/decisions/0009-memory.md)."""
        self._around.progress.say("compiling ...")
        self._parts.compile()
        self._parts.epsilon(0)
        for key in self._evaluation_keys:
            environment_key, _ = jax.random.split(jax.random.fold_in(jax.random.clone(key), 0))
            seed_from(environment_key)

    def _no_checkpoints(self) -> list[Checkpoints]:
        """To build on."""
        snapshots = self._parts.snapshots
        return [Checkpoints(each.path, snapshots, index) for index, each in enumerate(self._directories)]

    def resume(self) -> None:
        """From the newest checkpoint that is whole in every seed's directory; from the start if there never was one."""
        self._checkpoints = self._no_checkpoints()
        warn = self._around.progress.warn
        for step in sorted(set.intersection(*(set(each.steps()) for each in self._checkpoints)), reverse=True):
            try:
                self._load(step)
            except Damaged as damage:
                warn(f"checkpoint at step {step:,} is not whole, so an older one is used: {damage}")
            else:
                return
        if self._was_saved():
            path = self._directories[0].path
            raise UserError(f"{path} has checkpoints, but none is whole: only `fqf train --overwrite` can begin again")
        for directory in self._directories:
            warn(f"{directory.path} has no checkpoint yet: it starts again at step 0")
        self.begin()

    def _was_saved(self) -> bool:
        """Whether all seeds ever had the same checkpoint. A process killed between the manifests of the first one
        leaves some seeds with it and others without."""
        manifests = [each.with_manifest() for each in self._checkpoints]
        return bool(set.intersection(*manifests)) or max(map(len, manifests)) > 1

    def _load(self, step: int) -> None:
        saved = [each.load(step) for each in self._checkpoints]
        entries = [each.ledger for each in saved]
        manifest = self._checkpoints[0].directory / f"{step:012d}" / "manifest.json"
        with believed(manifest):
            for config, directory, entry in zip(self._configs, self._directories, entries, strict=True):
                self._compare(config, directory, entry)
            self._ledger = read_ledger(self._configs, self._chunks, entries)
            logs = [(read_marks(entry["logs"]), float(entry["seconds"])) for entry in entries]
            mementos = [entry["lanes"] for entry in entries]
            if self._step != step or {entry["num_rows"] for entry in entries} != {self._num_rows}:
                raise ValueError("its counters contradict each other")
        self._compile()
        with believed(manifest):
            state = self._parts.snapshots.restore([each.snapshot for each in saved], mementos)
        try:
            for checkpoints, each in zip(self._checkpoints, saved, strict=True):
                state = checkpoints.load_rows(state, step, each.segments)
            for directory, (marks, seconds) in zip(self._directories, logs, strict=True):
                directory.open(marks, step, seconds)
        except BaseException:
            self._parts.driver.close(state)
            raise
        self._state, self._saved_at = state, (time.monotonic(), step)
        self._around.progress.skip(step * len(self._configs))

    def _compare(self, config: RunConfig[Any, Any], directory: RunDirectory, ledger: dict[str, Any]) -> None:
        """Refuse another config; name what may round differently."""
        if ledger.get("config") != config_hash(config):
            raise UserError(f"{directory.path / 'config.toml'} was changed since the checkpoint: put it back to resume")
        before, now = ledger.get("made_by", {}), self._around.facts
        changed = [name for name in now if before.get(name) != now[name]]
        if changed:
            differences = "; ".join(f"{name} {before.get(name)}, now {now[name]}" for name in changed)
            self._around.progress.warn(f"the checkpoint was written elsewhere, so digits may differ: {differences}")

    @property
    def _step(self) -> int:
        return agent_steps(self._chunks, self._ledger.position)

    @property
    def _num_rows(self) -> int:
        return self._step // self._configs[0].lanes

    def run(self) -> list[Run]:
        """To the end; `Stopped` if asked to, after saving."""
        try:
            return self._run()
        finally:
            self._parts.driver.close(self._state)

    def _run(self) -> list[Run]:
        while True:
            if self._around.stop.is_set():
                self._save()
                raise Stopped
            position = self._ledger.position
            if position == 0 or self._chunks[position - 1].evaluate:
                self._evaluate()
            if position == len(self._chunks):
                return self._finish()
            self._play(self._chunks[position])
            now, step = self._saved_at
            if self._pace.is_due(time.monotonic() - now, self._step - step):
                self._save()

    def _play(self, chunk: Chunk) -> None:
        driver, started = self._parts.driver, time.monotonic()
        move = driver.warm_up if chunk.warm_up else driver.advance
        self._state, metrics = jax.block_until_ready(move(self._state, chunk.vector_step, chunk.length))
        seconds = time.monotonic() - started
        self._ledger.position += 1
        self._ledger.episodes += np.asarray(metrics.num_episodes)
        for index, directory in enumerate(self._directories):
            counts = {"step": self._step, "updates": self._updates, "episodes": int(self._ledger.episodes[index])}
            row = counts | {"epsilon": float(self._parts.epsilon(self._step))} | metrics_row(metrics, index)
            self._refuse_nonfinite(row, index)
            if trouble := directory.log(row, seconds, chunk.steps):
                self._around.progress.warn(f"{directory.path}: {trouble}; lines of its logs wait in memory for room")
            self._around.progress.advance(chunk.steps, row)
        self._ledger.training.add(finished_episodes(self._state))

    @property
    def _updates(self) -> int:
        return periods_played(self._chunks, self._ledger.position) * self._parts.driver.updates_per_period

    def _refuse_nonfinite(self, row: dict[str, Any], index: int) -> None:
        """A loss that is not a number never becomes one again."""
        for name, value in row.items():
            if value is not None and not math.isfinite(value):
                last = self._checkpoints[index].last
                kept = f"its last good checkpoint is {last}" if last else "no checkpoint was written yet"
                where = f"at step {row['step']} of {self._directories[index].path}"
                raise Diverged(f"{name} is {value} {where}: the run has diverged; {kept}; lower its rates")

    def _evaluate(self) -> None:
        step = self._step
        status = f"evaluating at step {step:,} ..." if step else "compiling, and evaluating the untrained policy ..."
        self._around.progress.say(status)
        scores = []
        try:
            for index, key in enumerate(self._evaluation_keys):
                params = self._parts.driver.pick(self._state, index)[0].params
                scores.append(summarize(self._parts.evaluate(params, jax.random.fold_in(key, step))))
        except Stopped:
            self._save()
            raise
        give_back_memory()
        for directory, score, evaluations in zip(self._directories, scores, self._ledger.evaluations, strict=True):
            evaluations.append(score)
            directory.log_evaluation(step, score)
        if step and (of_training := self._ledger.training.take(step)) is not None:
            self._directories[0].log_evaluation(step, of_training, source="training")

    def _save(self) -> None:
        """A disk that is full, or gone, costs this checkpoint and not the run. All seeds have the same, or none has."""
        step = self._step
        self._saved_at = (time.monotonic(), step)
        done = [each for each in self._checkpoints if each.last is not None and each.last.name == f"{step:012d}"]
        if done or step == 0:
            return
        self._around.progress.say(f"saving at step {step:,} ...")
        try:
            for index, checkpoints in enumerate(self._checkpoints):
                checkpoints.save(step, self._num_rows, self._state, self._entry(index))
                done.append(checkpoints)
        except OSError as error:
            path, last = self._directories[len(done)].path, self._checkpoints[len(done)].last
            for checkpoints in done:
                with contextlib.suppress(OSError):  # the manifest goes first, if anything does
                    checkpoints.take_back()
            kept = f"the last good one is {last}" if last else "there is none yet"
            self._around.progress.warn(f"NO CHECKPOINT at step {step:,} of {path}: {error.strerror}; {kept}")
        else:
            with contextlib.suppress(OSError):  # what can't be deleted now will be next time
                for checkpoints in self._checkpoints:
                    checkpoints.prune()
        give_back_memory()

    def _entry(self, index: int) -> dict[str, Any]:
        """What a checkpoint holds beside the state."""
        directory = self._directories[index]
        return self._ledger.entry(index) | {
            "seconds": directory.seconds(),
            "logs": directory.marks(),
            "config": config_hash(self._configs[index]),
            "made_by": self._around.facts,
        }

    def _finish(self) -> list[Run]:
        """With a full disk, this is where to wait for room: what was learned is nowhere but here."""
        while True:
            try:
                finished = [self._describe(index) for index in range(len(self._configs))]
                break
            except OSError as error:
                paths = " ".join(str(directory.path) for directory in self._directories)
                self._around.progress.warn(
                    f"{paths}: {error.strerror}; the results are tried again every {RETRY_SECONDS} s"
                )
                if self._around.stop.wait(RETRY_SECONDS):
                    self._save()
                    raise Stopped from None
        for directory in self._directories:  # only now: until all are finished, all may have to be resumed
            with contextlib.suppress(OSError):
                remove_all(directory.path)
        return finished

    def _describe(self, index: int) -> Run:
        """Everything but the clock's numbers follows from the config."""
        learned, actor = self._parts.driver.pick(self._state, index)
        episodes = int(self._ledger.episodes[index])
        resets = episodes - int(np.sum(actor.timestep.last))
        environment_steps = self._step - resets
        counts = {"steps": self._step, "environment_steps": environment_steps}
        counts |= {"frames": environment_steps * self._parts.frame_skip}
        counts |= {"updates": self._updates, "episodes": episodes}
        trace_key = jax.random.fold_in(self._evaluation_keys[index], self._step + 1)
        policy = Policy(self._configs[index], self._parts.spec, jax.tree.map(np.array, learned.params))
        return write_results(
            self._directories[index],
            policy,
            self._parts.trace(learned.params, trace_key),
            counts,
            self._ledger.evaluations[index],
            self._ledger.training.scores,
            self._checkpoints[index].digests(self._state, self._num_rows),
            self._around.facts,
        )


def config_hash(config: RunConfig[Any, Any]) -> str:
    return sha256(to_toml(config).encode())

"""Files that can't be trusted: whatever is done to a checkpoint, it is whole, or it is not used."""

import errno
import itertools
import json
import random
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy
from faults.conftest import SMALL, stop_after
from faults.harness import digest
from hypothesis import given
from hypothesis import strategies as st

import fqf
from fqf import checkpoint, formats, snapshots
from fqf.checkpoint import Checkpoints
from fqf.errors import UserError
from fqf.files import Lock
from fqf.formats import FORMAT, Damaged, manifest, read_manifest, sha256, to_arrays
from fqf.parts import assemble
from fqf.policy import read_config
from fqf.train import known_environment, resume

pytestmark = pytest.mark.usefixtures("compile_quickly")


@pytest.fixture(scope="module")
def parts(stopped):
    config = read_config(stopped / "config.toml")
    return assemble(config, known_environment(config))


def load(run: Path, step: int, parts) -> dict[str, np.ndarray]:
    """The state and the rows of a checkpoint, as arrays."""
    checkpoints = Checkpoints(run, parts.snapshots)
    saved = checkpoints.load(step)
    state = checkpoints.load_rows(parts.snapshots.restore([saved.snapshot], [None]), step, saved.segments)
    return to_arrays(state)


def files_of(run: Path, step: int) -> list[Path]:
    checkpoint = run / "checkpoints" / f"{step:012d}"
    rows = [run / "checkpoints" / "rows" / f"{a:012d}-{b:012d}.safetensors" for a, b, *_ in content(checkpoint)["rows"]]
    return [*sorted(checkpoint.iterdir()), *rows]


def content(checkpoint: Path) -> dict:
    return json.loads((checkpoint / "manifest.json").read_text())["content"]


def test_two_checkpoints_are_kept_and_share_their_rows(stopped, parts):
    assert Checkpoints(stopped, parts.snapshots).steps() == [360, 300]
    older, newer = (content(stopped / "checkpoints" / f"{step:012d}")["rows"] for step in (300, 360))
    shared = [row for row in older if row in newer]
    assert shared
    assert newer[-1][:2] == [300, 360]  # only what is new was written
    names = {f"{a:012d}-{b:012d}.safetensors" for a, b, *_ in older + newer}
    assert {path.name for path in (stopped / "checkpoints" / "rows").iterdir()} == names
    assert newer[0][1] > 360 - SMALL["replay_capacity"] >= newer[0][0]  # no more than the ring holds


def test_a_checkpoint_gives_back_what_was_saved(parts, tmp_path):
    """Two saves, the second after the ring has wrapped around; every leaf, the keys' too."""
    state = parts.driver.init(jax.random.key(1)[None])
    checkpoints, played = Checkpoints(tmp_path, parts.snapshots), 0
    for step in (90, 310):
        state, _ = parts.driver.warm_up(state, played, step - played)
        checkpoints.save(step, step, state, {})
        played = step
        saved, expected = load(tmp_path, step, parts), to_arrays(snapshots.cloned_keys(state))
        assert saved.keys() == expected.keys()
        for name, leaf in expected.items():
            np.testing.assert_array_equal(saved[name], leaf, err_msg=name)


@given(sizes=st.lists(st.integers(0, 12), max_size=20))
def test_pieces_are_small_and_hold_everything_in_its_order(sizes):
    arrays = {str(i): np.zeros(size, np.uint8) for i, size in enumerate(sizes)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "PIECE_BYTES", 10)
        pieces = formats.in_pieces(arrays)
    assert [name for piece in pieces for name in piece] == list(arrays)
    totals = [sum(array.nbytes for array in piece.values()) for piece in pieces]
    assert all(total <= 10 or len(piece) == 1 for total, piece in zip(totals, pieces, strict=True))
    assert all(a + b > 10 for a, b in itertools.pairwise(totals))


def test_a_state_of_many_pieces_is_read_back(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "PIECE_BYTES", 1_000)
    state = parts.driver.init(jax.random.key(2)[None])
    Checkpoints(tmp_path, parts.snapshots).save(1, 0, state, {})
    assert len(list(tmp_path.rglob("state-*.safetensors"))) > 10
    saved, expected = load(tmp_path, 1, parts), to_arrays(snapshots.cloned_keys(state))
    for name, leaf in expected.items():
        np.testing.assert_array_equal(saved[name], leaf, err_msg=name)


def test_a_manifest_too_large_to_be_read_again_is_not_written(parts, tmp_path, monkeypatch):
    checkpoints, state = Checkpoints(tmp_path, parts.snapshots), parts.driver.init(jax.random.key(2)[None])
    checkpoints.save(1, 0, state, {})
    monkeypatch.setattr(checkpoint, "MANIFEST_BYTES", 100)
    with pytest.raises(OSError, match="would not fit into a manifest"):
        checkpoints.save(2, 0, state, {})
    assert checkpoints.steps() == [1]


def test_a_seed_that_can_not_save_takes_the_others_back(tmp_path, monkeypatch, capfd):
    """Seeds of one program need a checkpoint at the same step, or none of them can go on."""
    save, refused = Checkpoints.save, []

    def fail(self, step, *rest):
        if step == 240 and self._index == 1:
            refused.append(step)
            raise OSError(errno.ENOSPC, "No space left on device")
        save(self, step, *rest)

    monkeypatch.setattr(Checkpoints, "save", fail)
    options = {**SMALL, "seeds": 2, "seeds_together": "vmap"}
    stop_after(240, lambda: fqf.train_seeds("classic/cartpole", runs=tmp_path, **options))
    assert refused == [240]
    assert "NO CHECKPOINT at step 240" in capfd.readouterr().err
    steps = [sorted(path.name for path in tmp_path.rglob(f"seed{seed}/checkpoints/0*")) for seed in (0, 1)]
    assert steps == [["000000000100", "000000000180"]] * 2


def test_a_resumed_run_is_the_run_that_never_stopped(copy, calm):
    run = fqf.resume(copy, quiet=True)
    assert digest(run.path) == digest(calm)
    assert not (copy / "checkpoints").exists()  # a finished run needs none


@pytest.mark.parametrize("seed", range(4))
def test_torn_and_flipped_files_are_noticed_whatever_the_file_and_the_place(stopped, parts, tmp_path, seed):
    rng = random.Random(seed)
    for number, file in enumerate(files_of(stopped, 360)):
        run = Path(shutil.copytree(stopped, tmp_path / str(number)))
        target = run / file.relative_to(stopped)
        data = bytearray(target.read_bytes())
        if seed % 2:
            data = data[: rng.choice([0, 1, len(data) // 2, len(data) - 1])]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        target.write_bytes(data)
        with pytest.raises(Damaged, match=target.name):
            load(run, 360, parts)


NEWEST = [
    "000000000360/state-00.safetensors",
    "000000000360/manifest.json",
    "rows/000000000300-000000000360.safetensors",
]


@pytest.mark.parametrize("name", NEWEST)
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before_and_says_so(copy, calm, capfd, name):
    target = copy / "checkpoints" / name
    target.write_bytes(target.read_bytes()[:-7])
    run = fqf.resume(copy, quiet=True)
    assert digest(run.path) == digest(calm)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "checkpoint at step 360 is not whole, so an older one is used" in lines[0]


def test_before_its_first_checkpoint_a_run_starts_again(copy, calm, capfd):
    for path in (copy / "checkpoints").rglob("manifest.json"):
        path.unlink()
    run = fqf.resume(copy, quiet=True)
    assert digest(run.path) == digest(calm)
    assert "has no checkpoint yet: it starts again at step 0" in capfd.readouterr().err


@pytest.mark.parametrize("pattern", ["state-*", "rows/*", "manifest.json"])
def test_a_run_whose_checkpoints_are_all_damaged_is_left_alone(copy, pattern):
    for path in (copy / "checkpoints").rglob(pattern):
        path.write_bytes(path.read_bytes()[:-1])
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(UserError, match=r"has checkpoints, but none is whole: only `fqf train --overwrite` can begin"):
        fqf.resume(copy, quiet=True)
    assert {path: path.read_bytes() for path in before} == before


def test_a_disk_that_can_not_be_read_is_no_damage(copy, monkeypatch):
    def fail(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(UserError, match=r"manifest.json can't be read: Input/output error"):
        fqf.resume(copy, quiet=True)


def rewrite(run: Path, change) -> None:
    """A manifest that vouches for itself, but says something else."""
    path = run / "checkpoints" / "000000000360" / "manifest.json"
    said = json.loads(path.read_text())["content"]
    change(said)
    path.write_bytes(manifest(said))


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["rows"].pop(),
        lambda said: said["rows"].pop(0),
        lambda said: said.update(num_rows=10**12),
        lambda said: said.update(rows=[[0, 10**9, 10**12, "0"]], num_rows=10**9),
        lambda said: said["state"][0].__setitem__(0, 10**15),
        lambda said: said.update(rows=7),
        lambda said: said.update(ledger=None),
        lambda said: said.update(state=[]),
        lambda said: said.update(step=300),
        lambda said: said.update(format="other", ledger=[]),
    ],
)
def test_a_manifest_that_lies_is_damage(copy, parts, change):
    rewrite(copy, change)
    with pytest.raises(Damaged):
        load(copy, 360, parts)


@pytest.mark.parametrize(
    "change",
    [
        lambda ledger: ledger.update(made_by=[]),
        lambda ledger: ledger.update(logs={}),
        lambda ledger: ledger["logs"]["metrics.jsonl"].update(size=-1),
        lambda ledger: ledger["logs"]["timing.jsonl"].pop("sha256"),
    ],
)
def test_a_ledger_that_lies_costs_its_checkpoint_and_nothing_else(copy, calm, capfd, change):
    rewrite(copy, lambda said: change(said["ledger"]))
    assert digest(fqf.resume(copy, quiet=True).path) == digest(calm)
    assert "so an older one is used" in capfd.readouterr().err


def test_a_checkpoint_written_again_is_not_vouched_for_by_its_old_manifest(copy, calm, monkeypatch):
    """Killed between the state, whose bytes are the old ones, and the manifest, which would be of an earlier life."""
    state = copy / "checkpoints" / "000000000360" / "state-00.safetensors"
    state.write_bytes(state.read_bytes()[:-1])
    write = checkpoint.write_whole

    def die_before_the_manifest(path, data):
        if path.parent.name == "000000000360" and path.name == "manifest.json":
            raise Killed
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_whole", die_before_the_manifest)
        with pytest.raises(Killed):
            fqf.resume(copy, quiet=True)
    assert digest(fqf.resume(copy, quiet=True).path) == digest(calm)


class Killed(BaseException):
    """Nothing cleans up after it."""


TOGETHER = {**SMALL, "seeds": 2, "seeds_together": "vmap", "steps": 180, "evaluate_every_steps": 180}


@pytest.fixture(scope="module")
def calm_together(compile_quickly, tmp_path_factory):
    runs = tmp_path_factory.mktemp("together")
    return [digest(run.path) for run in fqf.train_seeds("classic/cartpole", runs=runs, **TOGETHER)]


@pytest.mark.parametrize("writes", [0, 2, 3, 5, 7, 9, 10])
def test_seeds_of_one_program_are_killed_at_any_file_of_a_checkpoint(calm_together, tmp_path, monkeypatch, writes):
    """A checkpoint is rows, state and manifest of one seed, then of the other; half of the fatal file is written."""
    write, written = checkpoint.write_whole, []

    def die(path, data):
        written.append(path)
        if len(written) > writes:
            path.with_name(path.name + ".partial").write_bytes(data[: len(data) // 2])
            raise Killed
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_whole", die)
        with pytest.raises(Killed):
            fqf.train_seeds("classic/cartpole", runs=tmp_path, **TOGETHER)
    paths = [tmp_path / "fqf" / "classic.cartpole" / f"seed{seed}" for seed in (0, 1)]
    resume(paths, quiet=True)
    assert [digest(path) for path in paths] == calm_together


def test_a_seed_that_lost_its_config_is_not_replaced(tmp_path):
    paths = [tmp_path / "fqf" / "classic.cartpole" / f"seed{seed}" for seed in (0, 1)]
    stop_after(100, lambda: fqf.train_seeds("classic/cartpole", runs=tmp_path, **TOGETHER))
    (paths[1] / "config.toml").unlink()
    before = {path: path.read_bytes() for path in paths[1].rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(UserError, match="is not a run directory, but holds"):
        resume(paths[:1], quiet=True)
    assert {path: path.read_bytes() for path in before} == before


def test_a_seed_that_became_another_run_is_left_alone(tmp_path):
    paths = [tmp_path / "fqf" / "classic.cartpole" / f"seed{seed}" for seed in (0, 1)]
    stop_after(100, lambda: fqf.train_seeds("classic/cartpole", runs=tmp_path, **TOGETHER))
    config = paths[1] / "config.toml"
    config.write_text(config.read_text().replace("hidden = 6", "hidden = 7"))
    with pytest.raises(UserError, match=r"seed1, which is another run now: it can't go on alone"):
        resume(paths[:1], quiet=True)


def test_tensors_of_another_version_are_refused(copy, parts):
    """Right size and hash, wrong shapes: no older checkpoint would help."""
    state = copy / "checkpoints" / "000000000360" / "state-00.safetensors"
    tensors = {"a": np.zeros(3, np.float32)}
    data = safetensors.numpy.save(tensors)
    state.write_bytes(data)
    rewrite(copy, lambda said: said.update(state=[[len(data), sha256(data)]]))
    with pytest.raises(UserError, match="does not hold the tensors of this run"):
        load(copy, 360, parts)


def test_another_format_is_refused_with_the_version_that_reads_it(copy):
    def change(said):
        said["format"], said["ledger"]["made_by"]["versions"]["fqf"] = "fqf-checkpoint-9", "7.8.9"

    rewrite(copy, change)
    text = rf"has format 'fqf-checkpoint-9'; this version reads '{FORMAT}': use fqf 7.8.9"
    with pytest.raises(UserError, match=text):
        fqf.resume(copy, quiet=True)


def test_a_changed_config_is_refused(copy):
    config = copy / "config.toml"
    config.write_text(config.read_text().replace("discount = 0.99", "discount = 0.98"))
    with pytest.raises(UserError, match="was changed since the checkpoint"):
        fqf.resume(copy, quiet=True)


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluations.csv", "timing.jsonl"])
def test_a_changed_log_is_refused(copy, name):
    (copy / name).write_bytes(b"x" + (copy / name).read_bytes()[1:])
    with pytest.raises(UserError, match=rf"{name} is not as it was"):
        fqf.resume(copy, quiet=True)


def test_other_surroundings_are_named(copy, calm, capfd):
    rewrite(copy, lambda said: said["ledger"]["made_by"].update(device="abacus"))
    run = fqf.resume(copy, quiet=True)
    assert digest(run.path)["digests"] == digest(calm)["digests"]
    assert "written elsewhere, so digits may differ: device abacus, now " in capfd.readouterr().err


def test_unknown_files_are_never_deleted(copy):
    strangers = [copy / "checkpoints" / name for name in ("notes.txt", "rows/my.safetensors", "000000000300/mine")]
    for path in strangers:
        path.write_text("mine")
    fqf.resume(copy, quiet=True)
    assert all(path.read_text() == "mine" for path in strangers)


def test_a_finished_run_and_no_run_at_all_are_refused(calm, tmp_path):
    with pytest.raises(UserError, match="nothing to resume"):
        fqf.resume(calm, quiet=True)
    with pytest.raises(UserError, match="holds no run"):
        fqf.resume(tmp_path, quiet=True)


def test_a_second_process_is_refused(copy):
    lock = Lock(copy)
    with pytest.raises(UserError, match=r"is in use by process \d+"):
        fqf.resume(copy, quiet=True)
    lock.release()


def test_seeds_of_one_vmapped_program_are_resumed_together(tmp_path):
    options = {**SMALL, "seeds": 2, "seeds_together": "vmap"}
    calm = fqf.train_seeds("classic/cartpole", runs=tmp_path / "calm", **options)
    stop_after(240, lambda: fqf.train_seeds("classic/cartpole", runs=tmp_path / "storm", **options))
    paths = [tmp_path / "storm" / run.path.relative_to(tmp_path / "calm") for run in calm]
    resumed = resume([paths[1]], quiet=True)
    assert [run.path for run in resumed] == paths
    assert [digest(path) for path in paths] == [digest(run.path) for run in calm]


def test_reading_a_manifest_never_ends_in_anything_but_damage(tmp_path):
    path = tmp_path / "manifest.json"
    for text in (b"", b"{", b"[" * 100_000, b"null", b'{"content": 3, "sha256": 4}', b"\xff\xfe", b'{"content": {}}'):
        path.write_bytes(text)
        with pytest.raises(Damaged):
            read_manifest(path)


def test_keys_survive(stopped, parts):
    saved = Checkpoints(stopped, parts.snapshots).load(360)
    assert jax.dtypes.issubdtype(saved.snapshot.key.dtype, jax.dtypes.prng_key)

"""Random and mutated files: loaders refuse them in one line; they neither crash, hang nor fill the memory."""

import json
import random
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fqf
from fqf.config import RunConfig, read_toml
from fqf.errors import UserError
from fqf.formats import Damaged, Entry, read_tensors, sha256
from fqf.policy import Policy, load_policy, read_config
from fqf.replay import ring
from fqf.types import EnvironmentSpec

pytestmark = pytest.mark.usefixtures("compile_quickly")
FUZZ = settings(
    max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def told(load: Callable[[], object]) -> object:
    """What was loaded, or the error that a user is told; anything else that is raised is a bug."""
    try:
        return load()
    except (UserError, Damaged) as error:
        return error


def is_one_line(found: object) -> bool:
    return isinstance(found, UserError | Damaged) and 10 < len(str(found)) < 1_000 and "\n" not in str(found).strip()


def mutate(data: bytes, seed: int) -> bytes:
    """A few bytes changed, removed, doubled or cut off."""
    rng, changed = random.Random(seed), bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del changed[place : place + rng.randrange(1, 9)]
            case 2:
                changed[place:place] = changed[place : place + rng.randrange(1, 9)]
            case 3:
                del changed[place:]
    return bytes(changed)


@pytest.fixture(scope="module")
def policy(calm):
    return calm / "policy"


@FUZZ
@given(seed=st.integers(0, 2**32), name=st.sampled_from(["config.toml", "params.safetensors"]))
def test_a_mutated_policy_is_loaded_or_refused(policy, tmp_path, seed, name):
    target = tmp_path / str(seed)
    shutil.copytree(policy, target, dirs_exist_ok=True)
    (target / name).write_bytes(mutate((policy / name).read_bytes(), seed))
    found = told(lambda: load_policy(target))
    assert isinstance(found, Policy) or is_one_line(found), found


@FUZZ
@given(data=st.binary(max_size=300))
def test_random_bytes_are_no_policy(policy, tmp_path, data):
    shutil.copytree(policy, tmp_path, dirs_exist_ok=True)
    (tmp_path / "params.safetensors").write_bytes(data)
    assert is_one_line(told(lambda: load_policy(tmp_path)))


def test_a_policy_that_claims_to_be_huge_is_refused_before_memory_is_taken(policy, tmp_path):
    """A config that asks for 10^12 weights, beside a small file."""
    shutil.copytree(policy, tmp_path, dirs_exist_ok=True)
    config = tmp_path / "config.toml"
    config.write_text(config.read_text().replace("hidden = 6", "hidden = 1000000000000"))
    tracemalloc.start()
    with pytest.raises(UserError):
        load_policy(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


@pytest.mark.parametrize("kind", [np.float64, np.int8])
def test_a_policy_of_other_numbers_is_refused(policy, tmp_path, kind):
    rewritten(policy, tmp_path, lambda tensors: {name: array.astype(kind) for name, array in tensors.items()})
    with pytest.raises(UserError, match=r"does not have the shape and type that its config.toml describes"):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    "said",
    ["[]", "[" * 100_000, '{"format": "fqf-policy-1", "spec": {}}', "{" + " " * 2_000_000 + "}"]
    + [
        json.dumps({"format": "fqf-policy-1", "spec": {"id": "a", "observation_dtype": "float32"} | odd})
        for odd in ({"observation_shape": [0], "num_actions": 2}, {"observation_shape": [4], "num_actions": 0})
    ],
)
def test_a_policy_whose_header_makes_no_sense_is_refused(policy, tmp_path, said):
    rewritten(policy, tmp_path, lambda tensors: tensors, {"fqf": said})
    assert is_one_line(told(lambda: load_policy(tmp_path)))


def rewritten(policy: Path, target: Path, change, metadata: dict[str, str] | None = None) -> None:
    shutil.copytree(policy, target, dirs_exist_ok=True)
    with safetensors.safe_open(policy / "params.safetensors", framework="numpy") as file:
        tensors, said = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    safetensors.numpy.save_file(change(tensors), target / "params.safetensors", metadata or said)


def test_brackets_without_end_are_no_config(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("a = " + "[" * 5_000)
    assert is_one_line(told(lambda: read_toml(path)))


@FUZZ
@given(text=st.text(max_size=200))
def test_random_text_is_a_config_or_refused(tmp_path, text):
    path = tmp_path / "a.toml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    found = told(lambda: read_toml(path))
    assert isinstance(found, dict) or is_one_line(found), found
    assert is_one_line(told(lambda: read_config(path)))  # no text of 200 letters is a whole config


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_a_mutated_config_is_read_or_refused(calm, tmp_path, seed):
    path = tmp_path / "a.toml"
    path.write_bytes(mutate((calm / "config.toml").read_bytes(), seed))
    found = told(lambda: read_config(path))
    assert isinstance(found, RunConfig) or is_one_line(found), found


SPEC = EnvironmentSpec("test/rows", (3,), np.dtype("uint8"), 2)


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_a_mutated_segment_is_damage_even_if_its_hash_is_right(tmp_path, seed):
    """Somebody who can write the rows can write their hash into a manifest, too."""
    rows = ring.init(SPEC, 5, 2)
    good = safetensors.numpy.save({f".{name}": np.asarray(leaf) for name, leaf in rows._asdict().items()})
    data, path = mutate(good, seed), tmp_path / "rows.safetensors"
    path.write_bytes(data)
    found = told(lambda: read_tensors({path: Entry(len(data), sha256(data))}, rows))
    assert is_one_line(found) or [leaf.shape for leaf in found] == [leaf.shape for leaf in rows], found


def test_a_segment_larger_than_its_rows_is_not_even_read(tmp_path):
    path = tmp_path / "rows.safetensors"
    with path.open("wb") as file:
        file.truncate(10**10)  # ten gigabytes of nothing
    with pytest.raises(Damaged, match="bytes, not"):
        read_tensors({path: Entry(10**10, "0")}, ring.init(SPEC, 5, 2))


def test_a_policy_loads_where_its_environment_is_not(policy, monkeypatch):
    monkeypatch.setattr("fqf.environments.make", lambda *_: pytest.fail("the environment was made"))
    loaded = load_policy(Path(policy))
    assert loaded.act(np.zeros(4, np.float32)) in (0, 1)
    assert fqf.load(policy.parent).spec == loaded.spec

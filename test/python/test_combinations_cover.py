"""The pairwise cover holds every pair, respects `allowed`, and rotates with the seed."""

import itertools

import combinations_cover

AXES = {"model": ["gpt", "llama", "resnet", "moe"], "dtype": ["f32", "bf16"], "ranks": [1, 2, 4]}


def pairs(combinations):
    found = set()
    for combination in combinations:
        found |= set(itertools.combinations(combination.items(), 2))
    return found


def product(allowed=lambda combination: True):
    every = [dict(zip(AXES, values)) for values in itertools.product(*AXES.values())]
    return [combination for combination in every if allowed(combination)]


def test_every_pair_is_there_with_fewer_combinations(monkeypatch):
    monkeypatch.setenv("CLEAVE_TEST_ALL", "0")
    for seed in range(20):
        monkeypatch.setenv("CLEAVE_TEST_SEED", str(seed))
        chosen = combinations_cover.cover(AXES)
        assert pairs(chosen) == pairs(product())
        assert len(chosen) < len(product())


def test_of_a_strength_of_1_every_value_is_there(monkeypatch):
    monkeypatch.setenv("CLEAVE_TEST_ALL", "0")
    met = set()
    for seed in range(40):
        monkeypatch.setenv("CLEAVE_TEST_SEED", str(seed))
        chosen = combinations_cover.cover(AXES, strength=1)
        assert len(chosen) == 4
        assert {item for each in chosen for item in each.items()} == {item for each in product() for item in each.items()}
        met |= pairs(chosen)
    # Days make the pairs.
    assert met == pairs(product())


def test_a_test_is_given_values_under_their_names(monkeypatch):
    monkeypatch.setenv("CLEAVE_TEST_ALL", "1")
    axes = {"name, ranks": [("gpt", 2), ("llama", 4)], "passes": {"plain": [], "fused": ["--fuse-kernels"]}, "dtype": [None, ()]}
    mark = combinations_cover.covered(axes).mark
    names, cases = mark.args
    assert names == "name, ranks,passes,dtype" and len(cases) == 8
    assert dict(zip(mark.kwargs["ids"], cases, strict=True))["llama-4-fused-dtype1"] == ("llama", 4, ["--fuse-kernels"], ())


def test_what_is_not_allowed_is_left_out(monkeypatch):
    monkeypatch.setenv("CLEAVE_TEST_ALL", "0")
    allowed = lambda combination: combination["model"] != "resnet" or combination["dtype"] == "f32"
    chosen = combinations_cover.cover(AXES, allowed)
    assert all(map(allowed, chosen))
    assert pairs(chosen) == pairs(product(allowed))


def test_the_seed_changes_the_cover(monkeypatch):
    monkeypatch.setenv("CLEAVE_TEST_ALL", "0")
    covers = set()
    for seed in range(5):
        monkeypatch.setenv("CLEAVE_TEST_SEED", str(seed))
        covers.add(tuple(map(combinations_cover.name, combinations_cover.cover(AXES))))
    assert len(covers) > 1


def test_all_is_the_product(monkeypatch):
    monkeypatch.setenv("CLEAVE_TEST_ALL", "1")
    assert combinations_cover.cover(AXES) == product()

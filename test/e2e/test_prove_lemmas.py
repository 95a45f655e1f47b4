"""Each lemma that the prover uses is what PyTorch computes, and is needed: without it, or with another one in its
place, something right is not proved, or something wrong is. Each lemma is made wrong in its own cases; what the checker says
of proofs by wrong lemmas is asked of some of them, by the run's seed, and of all with CLEAVE_TEST_ALL=1."""

import functools
import json
import random
import subprocess

import lemma_cases
import lemma_cases_of_data  # noqa: F401: adds cases
import lemma_cases_of_experts  # noqa: F401
import lemma_cases_of_layers
import lemma_cases_of_masks  # noqa: F401
import lemma_cases_of_parts
import lemma_cases_of_ranks  # noqa: F401
import lemma_cases_of_rings  # noqa: F401
import lemma_programs
import pytest
from combinations_cover import run_all, seed

# What the checker does not replay.
PARTS = lemma_cases_of_parts.__name__
LAYERS = lemma_cases_of_layers.__name__
# Of ranks that have functions of their own: test_prove_uneven.py breaks them.
OF_CLASSES = "uneven-part", "part-in-zeros", "value-in-class", "same-in-classes", "class-by-place", "joined-place", "sum-goes-on"
SHARES = "lemma_cases_of_rings", "lemma_cases_of_masks", PARTS


class Cases:
    """All cases as two programs, whose functions have the same names, and what PyTorch says of them."""

    def __init__(self):
        self.names, self.gap, self.texts = {}, {}, {}
        for lemma, (write, shapes) in lemma_cases.CASES.items():
            for i, shape in enumerate(shapes):
                for kind in ("right", "wrong"):
                    name = f"{kind}_{lemma.replace('-', '_')}_{i}"
                    whole, ranks = (
                        lemma_programs.Function(name, form, seed() % 1000 + i) for form in ("whole", kind)
                    )
                    write(whole, *shape)
                    write(ranks, *shape)
                    self.names[name] = lemma
                    self.gap[name] = lemma_programs.difference(ranks, whole)
                    self.texts[name] = whole.text(), ranks.text()

    def write(self, names, folder):
        """The programs of these functions alone."""
        paths = folder / "some.global.mlir", folder / "some.local.mlir"
        paths[0].write_text("".join(self.texts[name][0] for name in names))
        paths[1].write_text(lemma_programs.print_mesh() + "".join(self.texts[name][1] for name in names))
        return paths

    def of(self, lemma, kind):
        return [name for name, of in self.names.items() if of == lemma and name.startswith(kind)]


@pytest.fixture(scope="module")
def cases():
    return Cases()


@pytest.fixture(scope="module")
def proved(build_dir, cases, tmp_path_factory):
    """Names of functions that are proved, of all or of a lemma's own, with a lemma made wrong or with none."""
    folder = tmp_path_factory.mktemp("own")
    @functools.cache
    def run(*options, lemma=None):
        if lemma:
            return of([*cases.of(lemma, "right"), *cases.of(lemma, "wrong")], options)
        # Parts that are put together are taken as such in all of a program, or nowhere.
        groups = {}
        for name, own in cases.names.items():
            module = lemma_cases.CASES[own][0].__module__
            groups.setdefault(module if module in (PARTS, LAYERS) else None, []).append(name)
        return set().union(*(of(group, options) for group in groups.values()))

    def of(names, options):
        paths = cases.write(names, folder)
        result = subprocess.run(
            [build_dir / "bin" / "cleave-prove", *paths, "--json", "--execute=false", *options],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert result.returncode in (0, 2), result.stderr
        answer = json.loads(result.stdout)
        assert answer["results"], answer
        failed = {finding["function"] for finding in answer["findings"]}
        return {name for name in names if name not in failed}

    return run


@pytest.fixture(scope="module")
def lemmas(build_dir):
    listed = subprocess.run([build_dir / "bin" / "cleave-prove", "--list-lemmas"], capture_output=True, text=True)
    names = [line.split(":")[0] for line in listed.stdout.splitlines()]
    assert set(OF_CLASSES) <= set(names)
    return [name for name in names if name not in OF_CLASSES]


def test_pytorch_agrees(cases):
    """What is right is equal in every shape; what looks like it differs in some."""
    for name, gap in cases.gap.items():
        if name.startswith("right"):
            assert gap < 1e-9, (name, gap)
    for lemma in lemma_cases.CASES:
        assert max(cases.gap[name] for name in cases.of(lemma, "wrong")) > 1e-9, lemma


def test_what_is_equal_is_proved_and_nothing_else(cases, proved):
    names = proved()
    assert [name for name in cases.names if name.startswith("right") and name not in names] == []
    assert [name for name in names if cases.gap[name] > 1e-9] == []


def test_each_lemma_is_needed(cases, proved, lemmas):
    assert sorted(lemmas) == sorted(lemma_cases.CASES)
    usual = proved()
    for lemma in lemmas:
        names = proved(f"--break-lemma={lemma}", lemma=lemma)
        wrong = {name for name in names if cases.gap[name] > 1e-9}
        own = set(cases.of(lemma, "right")) | set(cases.of(lemma, "wrong"))
        assert own & ((usual - names) | wrong), f"{lemma} may be wrong, and no test of it sees it"


def test_the_checker_rejects_proofs_by_wrong_lemmas(build_dir, cases, proved, lemmas, tmp_path):
    """What a wrong lemma proves wrongly has a log, which `cleave-check-proof` rejects, or says which ops it trusts."""
    log = tmp_path / "proof"
    numbers = {0: 0, 1: 0, 2: 0}
    for lemma in lemmas if run_all() else random.Random(seed()).sample(lemmas, 12):
        broken = proved(f"--break-lemma={lemma}", lemma=lemma)
        for name in [name for name in sorted(broken) if cases.gap[name] > 1e-9][:1]:
            paths = cases.write([name], tmp_path)
            made = subprocess.run(
                [build_dir / "bin" / "cleave-prove", *paths, "--execute=false", f"--break-lemma={lemma}", f"--log={log}"],
                capture_output=True, timeout=60,
            )  # fmt: skip
            # Alone, it may be tried in another form.
            if made.returncode:
                continue
            checked = subprocess.run(
                [build_dir / "bin" / "cleave-check-proof", *paths, log], capture_output=True, text=True, timeout=60
            )
            numbers[checked.returncode] += 1
            assert checked.returncode != 0, f"{name}, proved by a wrong {lemma}: {checked.stdout}"
            if checked.returncode == 2:
                assert "trusted: " in checked.stdout
    assert numbers[1], numbers


def test_the_checker_accepts_what_lemmas_prove(build_dir, cases, proved, tmp_path):
    """Of all that is right, most; what it cannot replay it rejects or lists. It replays no shares of sums."""
    log = tmp_path / "proof"
    numbers = {0: 0, 1: 0, 2: 0}
    shares = {lemma for lemma, (write, _) in lemma_cases.CASES.items() if write.__module__ in SHARES}
    assert shares
    others = [name for name, lemma in cases.names.items() if lemma not in shares]
    for name in [name for name in others if name.startswith("right") and name.endswith("_0")]:
        paths = cases.write([name], tmp_path)
        for command in (["cleave-prove", *paths, "--execute=false", f"--log={log}"], ["cleave-check-proof", *paths, log]):
            made = subprocess.run([build_dir / "bin" / command[0], *command[1:]], capture_output=True, timeout=60)
            if made.returncode and command[0] == "cleave-prove":
                break
        else:
            numbers[made.returncode] += 1
    # A minimum of what all have, counts of marks, counts and parts of sorted rows, rows for columns, rows at numbers that are added by
    # expert or gathered (three), factors of sums, and stacked values of which ranks have parts of other sizes (three) are not replayed.
    assert numbers[0] >= 60 and numbers[1] <= 16, numbers

"""Each lemma that the prover uses is what PyTorch computes, and is needed: without it, or with another one in its
place, something right is not proved, or something wrong is."""

import json
import subprocess

import lemma_cases
import lemma_cases_of_data  # noqa: F401: adds cases
import lemma_cases_of_ranks  # noqa: F401
import lemma_programs
import pytest
from combinations_cover import seed


class Cases:
    """All cases as two programs, whose functions have the same names, and what PyTorch says of them."""

    def __init__(self, folder):
        self.names, self.gap = {}, {}
        texts = {"global": "", "local": lemma_programs.print_mesh()}
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
                    texts["global"] += whole.text()
                    texts["local"] += ranks.text()
        self.paths = []
        for name, text in texts.items():
            self.paths.append(folder / f"{name}.mlir")
            self.paths[-1].write_text(text)

    def of(self, lemma, kind):
        return [name for name, of in self.names.items() if of == lemma and name.startswith(kind)]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return Cases(tmp_path_factory.mktemp("lemmas"))


@pytest.fixture(scope="module")
def proved(build_dir, cases):
    """Names of functions that are proved, with a lemma made wrong or with none."""

    def run(*options):
        result = subprocess.run(
            [build_dir / "bin" / "cleave-prove", *cases.paths, "--json", "--execute=false", *options],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert result.returncode in (0, 2), result.stderr
        failed = {finding["function"] for finding in json.loads(result.stdout)["findings"]}
        return {name for name in cases.names if name not in failed}

    return run


@pytest.fixture(scope="module")
def lemmas(build_dir):
    listed = subprocess.run([build_dir / "bin" / "cleave-prove", "--list-lemmas"], capture_output=True, text=True)
    return [line.split(":")[0] for line in listed.stdout.splitlines()]


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
        names = proved(f"--break-lemma={lemma}")
        wrong = {name for name in names if cases.gap[name] > 1e-9}
        own = set(cases.of(lemma, "right")) | set(cases.of(lemma, "wrong"))
        assert own & ((usual - names) | wrong), f"{lemma} may be wrong, and no test of it sees it"

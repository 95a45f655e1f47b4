"""Known errors of distributed training, made in example models: none is proved, and the op is named; without the
edit, and with one that only looks like an error, the program is proved. A third of them each day, by the run's seed;
all with CLEAVE_TEST_ALL=1."""

import dataclasses
import random
import subprocess

import bug_pairs
import bug_programs
import cleave
import placement_cases as cases
import pytest
from combinations_cover import run_all, seed
from exported_models import export_model
from training import ENVIRONMENT


def some(pairs):
    """A third, in order, so that pairs of one program stay together."""
    kept = range(len(pairs)) if run_all() else random.Random(seed()).sample(range(len(pairs)), len(pairs) // 3)
    return [pairs[i] for i in sorted(kept)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A model's program for one device, exported once."""
    made = {}

    def get(name, batch=None):
        if (name, batch) not in made:
            folder = tmp_path_factory.mktemp(f"{name}_{batch}")
            if name == "gpt_philox":
                # The same draws, of the other generator.
                program = get("gpt_dropout")
                path = folder / "gpt_philox.mlir"
                path.write_text(program.read_text().replace("<mt19937>", "<philox>"))
                path.with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
            elif name == "gpt_targets":
                spec = dataclasses.replace(cases.spec("gpt_untied", 2), mean_over="targets")
                path = cleave.export_spec(spec, folder)
            elif batch:
                path = cleave.export_spec(cases.spec(name, batch), folder)
            else:
                _, path = export_model(name, folder)
            made[name, batch] = path
        return made[name, batch]

    return get


@pytest.fixture(scope="module")
def programs(build_dir, whole, prove, tmp_path_factory):
    """GLOBAL, the right local program, which is proved, and the one with the edit."""
    folder = tmp_path_factory.mktemp("bugs")
    made = {}

    def opt(source, path, *passes):
        subprocess.run(
            [build_dir / "bin" / "cleave-opt", source, *passes, "-o", path],
            check=True, env=ENVIRONMENT, timeout=120,
        )  # fmt: skip
        return path

    def make(source, is_typed):
        program = whole(source.model, source.batch)
        path = folder / f"{source.name}.{is_typed}.mlir"
        passes = [*source.passes, *source.both]
        if source.annotate:
            placed = folder / f"{source.name}.placed.mlir"
            placed.write_text(source.annotate(program.read_text()))
            opt(placed, path, "--propagate-placements", "--partition", *passes)
        elif source.mesh:
            plan = bug_programs.plan(source).write(folder / f"{source.name}.json")
            opt(program, path, f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition", *passes)
        else:
            opt(program, path, *passes)
        if source.both:
            weights = program.with_suffix(".safetensors")
            program = opt(program, folder / f"{source.name}.whole.mlir", *source.both)
            program.with_suffix(".safetensors").symlink_to(weights)
        if not is_typed and (source.mesh or source.annotate):
            path.write_text(bug_programs.erase(path.read_text()))
        answer = prove(program, path)
        assert answer["answer"] == "proved", answer["findings"][:2]
        return program, path

    def get(pair):
        key = pair.source, pair.is_typed
        if key not in made:
            made[key] = make(*key)
        program, right = made[key]
        wrong = folder / f"{pair.row}.mlir"
        wrong.write_text(pair.edit(right.read_text()))
        return program, right, wrong

    return get


@pytest.mark.parametrize("pair", some(bug_pairs.PAIRS), ids=lambda pair: pair.row)
def test_known_errors(prove, programs, pair):
    program, right, wrong = programs(pair)
    answer = prove(program, wrong, "--time-limit=200", runs=True)
    assert answer["answer"] == ("unknown" if pair.row in bug_pairs.NOT_REFUTED else "refuted"), answer
    finding = answer["findings"][0]
    if pair.row in bug_pairs.FAR:
        assert finding["op"] == bug_pairs.FAR[pair.row], finding
        return
    # The lines are those of the program's text.
    line = int(finding["location"].rsplit(":", 1)[1])
    lines = bug_programs.edited_lines(right.read_text(), wrong.read_text(), pair.edit.function)
    assert line in lines, (finding, sorted(lines))


@pytest.mark.parametrize("pair", some(bug_pairs.CONTROLS), ids=lambda pair: pair.row)
def test_controls(prove, programs, pair):
    program, _, changed = programs(pair)
    answer = prove(program, changed)
    assert answer["answer"] == "proved", answer["findings"][:2]

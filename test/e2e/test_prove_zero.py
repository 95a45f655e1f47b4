"""ZeRO behind `--sync-gradients`: ranks with microbatches of their own have shards of optimizer states, then also of the gradients that
they add up, then also of parameters. It is proved; errors in it are refuted, at the op."""

import re
import subprocess

import pytest
from combinations_cover import covered, part_of_today
from test_prove_batches import SYNC, assert_proved, check, opt  # noqa: F401
from zero_programs import Zero


@pytest.fixture
def zero(model, build_dir, tmp_path):
    def make(name, level, ranks=2):
        program, path = model(name).program, tmp_path / f"zero{level}.mlir"
        # Without locations, which would be in the way of edits.
        part = subprocess.run(
            [build_dir / "bin" / "cleave-opt", program, f"{SYNC} size={ranks}"], capture_output=True, text=True, check=True, timeout=120
        )
        made = Zero(part.stdout, ranks, level)
        assert len(made.names) > 15
        path.write_text(made.text())
        return program, path

    return make


@covered({"name, ranks": [("gpt_untied", 2), ("gpt_tied", 4), ("llama", 2), ("moe", 2)], "level": [1, 2, 3]}, strength=1)
def test_proved(zero, prove, name, ranks, level):  # noqa: F811
    whole, path = zero(name, level, ranks)
    text = path.read_text()
    assert text.count("dist.placement = #dist.on<@mesh, dp = S(0)>") > 60 and "dist.reduce_scatter" in text
    assert_proved(prove(whole, path))


@pytest.mark.parametrize("level", [1, 2])
def test_scattered_over_one_axis(zero, opt, prove, tmp_path, level):  # noqa: F811
    """Hybrid: gradients are scattered over one axis of the batch, and summed over the other."""
    whole, made = zero("gpt_untied", level)
    made.write_text(made.read_text().replace('["dp" = 2]', '["dp" = 2, "ep" = 3]'))
    text = opt(made, tmp_path / "both.mlir", "--sync-gradients=axis=ep").read_text()
    both = tmp_path / "both.mlir"
    assert 'over ["dp", "ep"]' in text
    assert_proved(prove(whole, both))
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(re.sub(r'(%\S+) = dist\.all_reduce sum\((%\S+)\) over @mesh \["ep"\] : (\S+)', r"\1 = aten.alias(\2) : (\3) -> \3", text, count=1))
    answer = prove(whole, wrong, runs=True)
    assert answer["answer"] == "refuted" and answer["execution"]["ranks"] == 6, answer
    # A rank's shard is of its own examples along the other axis.
    assert len(answer["findings"]) == 3


SCATTER = r"    (%\S+) = (dist\.reduce_scatter sum\((%\S+)\) (dim 0 over @mesh \[\"dp\"\]) : (tensor<(\d+)\S*>) -> (tensor<(\d+)\S*>))"
STEP = r"^    (%.*) = train\.adamw\((%\S+), (%\S+), (.*) : (tensor<\d+.*>)$"

# What is replaced, of the last place that matches, and by what; the op that is named, or one of several; and in which levels.
ERRORS = {
    "not summed": (
        SCATTER, r"    %half, %other = aten.split(\3, split_size = \8) : (\5) -> (\7, \7)\n    \1 = aten.alias(%half) : (\7) -> \7",
        {"aten.split", "aten.alias"}, (1, 2, 3),
    ),
    "averaged": (SCATTER, r"    \1 = dist.reduce_scatter avg(\3) \4 : \5 -> \7", {"dist.reduce_scatter"}, (1, 2, 3)),
    "summed twice": (
        SCATTER, r'    %once = \2\n    \1 = dist.all_reduce sum(%once) over @mesh ["dp"] : \7', {"dist.all_reduce"}, (1, 2, 3),
    ),
    "summed again in the update": (
        STEP, r'    %again = dist.all_reduce sum(\3) over @mesh ["dp"] : \5' + "\n" + r"    \1 = train.adamw(\2, %again, \4 : \5",
        {"dist.all_reduce"}, (1, 2, 3),
    ),
    "another rank's parameters": (r"(%first_\S+ = aten\.mul_scalar\(%\S+, other = )\d+", r"\g<1>0", {"aten.add", "aten.index_select", "aten.mul_scalar"}, (1, 2)),
    "parameters of the step before": (r"dist\.all_gather\(%new_", "dist.all_gather(%mine_", {"dist.all_gather"}, (1, 2)),
    "scaled": (
        SCATTER, r"    %half = aten.mul_scalar(\3, other = 0.5) : (\5) -> \5\n    \1 = dist.reduce_scatter sum(%half) \4 : \5 -> \7",
        {"aten.mul_scalar", "dist.reduce_scatter"}, (1, 2, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("error, level", part_of_today([(error, level) for error in ERRORS for level in ERRORS[error][3]]))
def test_errors(zero, prove, tmp_path, error, level):  # noqa: F811
    whole, path = zero("gpt_untied", level)
    old, new, ops, _ = ERRORS[error]
    text = path.read_text()
    match = list(re.finditer(old, text, re.MULTILINE))[-1]
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(text[: match.start()] + match.expand(new) + text[match.end() :])
    answer = prove(whole, wrong, runs=True)
    assert answer["answer"] == "refuted", answer
    assert len(answer["findings"]) <= 4 and {finding.get("op") for finding in answer["findings"]} <= ops
    run = answer["execution"]
    assert (run["ranks"], run["own_microbatches"], run["float64"], run["update"]) == (2, 2, True, True)
    assert len({re.sub(r"^(param|grad|optim)\.|\.exp_avg(_sq)?$", "", example["name"]) for example in run["counterexamples"]}) == 1


@pytest.mark.parametrize("level", [1, 2, 3])
def test_right_changes(zero, prove, tmp_path, level):  # noqa: F811
    """What is not proved, but right, is run and not refuted."""
    whole, path = zero("gpt_untied", level)
    new = r"    %sum = \2\n    %tan = aten.tan(%sum) : (\7) -> \7\n    \1 = aten.atan(%tan) : (\7) -> \7"
    right = tmp_path / "right.mlir"
    right.write_text(re.sub(SCATTER, new, path.read_text(), count=1))
    answer = prove(whole, right, runs=True)
    assert answer["answer"] == "unknown" and answer["execution"]["update"] and answer["execution"]["values"] > 80, answer


@pytest.mark.parametrize(
    "old, new, says",
    [(r'(#train\.role<input "tokens" batch 0 over \["dp"\]>)', r"\1, dist.placement = #dist.on<@mesh, dp = S(0)>",
      "'input tokens' lies in shards along 'dp', and inputs are divided by their roles"),
     (r'(#train\.role<gradient "ln_f\.weight">), dist\.placement = #dist\.on<@mesh, dp = S\(0\)>',
      r"\1, dist.placement = #dist.on<@mesh, dp = P(sum)>",
      "ranks have no shards along 'dp' of a value, and inputs are divided by their roles"),
     (r'(%\S+: tensor<\S+> \{train\.role = #train\.role<accumulator "ln_f\.weight">), dist\.placement = #dist\.on<@mesh, dp = S\(0\)>', r"\1",
      "is not an even part")],
)  # fmt: skip
def test_refused(zero, prove, tmp_path, old, new, says):  # noqa: F811
    whole, path = zero("gpt_untied", 2)
    text = re.sub(old, new, path.read_text(), count=1)
    assert text != path.read_text()
    changed = tmp_path / "changed.mlir"
    changed.write_text(text)
    answer = prove(whole, changed)
    assert answer["answer"] == "unknown" and says in answer["reason"], answer


@pytest.mark.parametrize("name, ranks", [("gpt_untied", 4), ("llama", 2)])
def test_checked(zero, check, name, ranks):  # noqa: F811
    """Shards that ranks are given, and those that they take by index."""
    for level in (3, 1):
        status, said = check(*zero(name, level, ranks))
        assert status == 0, said

"""The tests of sharding rules see a wrong one: of each op, a rule changed in one claim does not hold of PyTorch.

`cleave-prove` trusts the rules, so that a test which could not fail would hide a false proof.
"""

import copy
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "dialects/aten/Inputs")]
import sharding_claims as claims  # noqa: E402
from test_sharding_rules import NOTHING_CLAIMED, RANDOM, one_thread, ops, rules_of, tested  # noqa: E402, F401: fixtures

# Kernels that refuse shapes which do not fit, rather than read beyond the end of a tensor.
CHECKS_SHAPES = {
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "alias", "bitwise_and",
    "bitwise_not", "cat", "clamp_max", "clone", "detach", "flip", "ge_scalar", "im2col", "logical_and", "logical_or",
    "masked_fill", "native_dropout_backward", "permute", "relu", "repeat", "roll", "select", "select_scatter", "slice",
    "slice_scatter", "split", "split_with_sizes", "squeeze", "squeeze_dim", "squeeze_dims", "stack", "t", "transpose",
    "tril", "triu", "unbind", "unsqueeze", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "where",
    "zero", "zeros_like", "bitwise_or", "clamp_min", "embedding", "eq", "floor_divide_scalar", "gather", "index",
    "index_select", "le", "logical_not", "lt_scalar", "minimum", "ne_scalar", "remainder_scalar", "rng_native_dropout",
    "scatter_src", "scatter_value", "sigmoid", "sign", "sqrt", "sub_scalar",
}  # fmt: skip
# Of scalars; of many random marks each part is like the whole; what reads without a check; and draws, which are not cut.
NOT_SEEN = {"lift_fresh_copy", "any", "all", "_unsafe_index", "rng_native_dropout"}


def broken_rules(call, rule):
    """(what, rule) for each claim that can be turned into another one."""

    def changed(what, change):
        other = copy.deepcopy(rule)
        change(other)
        return what, other

    def set_factor(factor, **values):
        return lambda other: other["factors"][factor].update(values)

    # First what changes no shape.
    for i in range(len(rule["operands"])):
        # Sums of indices name no rows.
        is_index = call.operand_types[i].endswith(("i64>", "i32>", "i1>"))
        if not is_index and not any(i in group["operands"] for group in rule["linear"]):
            group = {"operands": [i], "results": list(range(len(rule["results"]))), "moves": False}
            yield changed(f"linear in operand {i}", lambda other, group=group: other["linear"].append(group))
    for at in range(len(rule["linear"])):
        yield changed("moves", lambda other, at=at: other["linear"][at].update(moves=not other["linear"][at]["moves"]))
    for factor, entry in enumerate(rule["factors"]):
        is_gone = any(not claims.has(dims, factor) for dims in rule["results"])
        if entry["size"] > 1 and entry["whole"] is None and is_gone:
            other = "sum" if entry["reduction"] == "none" else "none"
            yield changed(f"{entry['name']} by {other}", set_factor(factor, reduction=other))
    if rule["size_attributes"]:
        yield changed("no attribute has a part's size", lambda other: other.update(size_attributes=[]))
    if call.op.mnemonic not in CHECKS_SHAPES:
        return
    for factor, entry in enumerate(rule["factors"]):
        if entry["size"] > 1 and entry["whole"] is not None:
            yield changed(f"{entry['name']} may be cut", set_factor(factor, whole=None))
            yield changed(f"{entry['name']} is summed", set_factor(factor, whole=None, reduction="sum"))
        for i, dims in enumerate(rule["operands"]):
            if entry["size"] > 1 and entry["whole"] is None and claims.has(dims, factor):
                # A factor of its own: the operand is taken whole.
                def detach(rule, i=i, entry=entry, factor=factor):
                    new = len(rule["factors"])
                    rule["factors"].append({**entry, "name": "own", "whole": "it is another one"})
                    rule["operands"][i] = [[new if f == factor else f for f in dim] for dim in rule["operands"][i]]

                yield changed(f"operand {i} does not have {entry['name']}", detach)


def is_refused(call, rule, seed):
    try:
        claims.check_call(call, rule, seed)
    except (claims.Broken, RuntimeError, IndexError):  # PyTorch refuses parts that do not fit together
        return True
    return False


def test_each_rule_can_be_seen_to_be_wrong(tested):  # noqa: F811
    seed = 1  # the same everywhere: whether a wrong claim is seen depends on the numbers
    seen = {}
    for _, call, rule in tested:
        op = call.op.mnemonic
        if seen.get(op) or op in NOTHING_CLAIMED | RANDOM | claims.UNINITIALIZED:
            continue
        seen[op] = any(is_refused(call, wrong, seed) for _, wrong in broken_rules(call, rule))
    assert len(seen) > 100
    unseen = sorted(op for op, is_seen in seen.items() if not is_seen)
    assert set(unseen) <= NOT_SEEN, f"nobody sees that their rules are wrong: {unseen}"

"""Known errors of distributed training, made in example models: none is proved, and the op is named; without the
edit, and with one that only looks like an error, the program is proved."""

import bug_pairs
import pytest
from test_prove import local, prove  # noqa: F401: fixtures


@pytest.fixture(scope="module")
def programs(local, tmp_path_factory):  # noqa: F811
    """GLOBAL, the right local program, and the one with the edit."""
    folder = tmp_path_factory.mktemp("bugs")

    def get(pair):
        whole, part = local(pair.model, pair.mesh)
        right = folder / f"{part.parent.name}.{part.stem}.{pair.is_typed}.mlir"
        if not right.exists():
            right.write_text(pair.right(part.read_text()))
        wrong = folder / f"{pair.row}.mlir"
        wrong.write_text(pair.edit(right.read_text()))
        return whole, right, wrong

    return get


@pytest.fixture(scope="module")
def proved():
    """Programs that are proved without the edit, each looked at once."""
    return set()


@pytest.mark.parametrize("pair", bug_pairs.PAIRS, ids=lambda pair: pair.row)
def test_known_errors(prove, programs, proved, pair):  # noqa: F811
    whole, right, wrong = programs(pair)
    if right not in proved:
        answer = prove(whole, right, "--execute=false")
        assert answer["answer"] == "proved", answer["findings"][:2]
        proved.add(right)
    options = [] if pair.is_typed else ["--execute=false"]
    answer = prove(whole, wrong, *options)
    # Without types it cannot be run.
    assert answer["answer"] == ("refuted" if pair.is_typed else "unknown"), answer
    assert pair.op == answer["findings"][0]["op"], answer["findings"][0]
    assert answer["findings"][0]["location"]


@pytest.mark.parametrize("pair", bug_pairs.CONTROLS, ids=lambda pair: pair.row)
def test_controls(prove, programs, pair):  # noqa: F811
    whole, _, changed = programs(pair)
    answer = prove(whole, changed, "--execute=false")
    assert answer["answer"] == "proved", answer["findings"][:2]

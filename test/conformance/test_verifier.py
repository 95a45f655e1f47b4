"""The dialect's verifier against the table: what is legal, and what a refused row is told to use instead."""

import json
import re
import subprocess

import pytest

from conformance.cases import bare
from conformance.operations import CONVERSIONS, WITH_REDUCTION
from conformance.table import _legal, names, rows
from conformance.tools import Tools
from conformance.values import BITWISE, Mesh, partial, shard

MESH = Mesh((("dp", 2), ("tp", 2)))


@pytest.fixture(scope="module")
def answers(build_dir, tmp_path_factory):
    """The verifier's error, or None, for each of the 4,100 rows."""
    every = list(rows())
    tools = Tools(build_dir, tmp_path_factory.mktemp("rows"))
    return dict(zip(every, tools.refusals([bare(row, MESH, ("tp",)) for row in every])))


def test_it_allows_exactly_the_legal_rows(answers):
    wrong = [row.key for row, error in answers.items() if row.legal == bool(error)]
    assert not wrong, (len(wrong), wrong[:20])
    assert sum(row.legal for row in answers) == 117


def test_refusals_say_what_is_wrong(answers):
    """Both types and the axis; or, where only reduction or dimension are wrong, these."""
    for row, error in answers.items():
        if not error or f"cannot take {row.source} to {row.destination} along axis 'tp'" in error:
            continue
        pending = {partial(row.source), partial(row.destination)} - {None}
        if "which values of type" in error:
            assert row.reduction in BITWISE, (row.key, error)
            assert any(f"pending '{k}'" in error for k in pending), (row.key, error)
        elif "requires its own" in error:
            assert row.name in WITH_REDUCTION and f"reduces {row.source} by " in error, (
                row.key,
                error,
            )
        elif row.source == row.destination and row.name in CONVERSIONS:
            assert "differ on exactly one axis, found two that are equal" in error, (row.key, error)
        else:
            sharded = [shard(k)[0] for k in (row.source, row.destination) if shard(k)]
            assert re.search(
                r"works on dimension \d, but axis 'tp' shards dimension (\d)", error
            ), (row.key, error)
            assert int(re.search(r"shards dimension (\d)", error)[1]) in sharded, (row.key, error)


def steps_to(name):
    """All (source, destination) pairs of an op, with any reduction; S(0) stands for any dimension."""
    plain = name.removeprefix("dist.")
    return {
        tuple("S(0)" if shard(k) else k for k in pair)
        for other, reduction in names()
        if other == plain
        for pair in _legal(other, reduction)
    }


def test_what_refusals_propose_is_legal(answers):
    """One op where one does it, else two."""
    proposed = 0
    for row, error in answers.items():
        match = re.search(r"along axis 'tp': use (dist\..*) \(dist", error or "")
        if not match:
            continue
        proposed += 1
        source, destination = ("S(0)" if shard(k) else k for k in (row.source, row.destination))
        chain = re.fullmatch(r"(dist\.\w+) to (.+), then (dist\.\w+)", match[1])
        if chain:
            middle = "S(0)" if chain[2].startswith("S(") else chain[2]
            assert (source, middle) in steps_to(chain[1]), (row.key, error)
            assert (middle, destination) in steps_to(chain[3]), (row.key, error)
        else:
            for op in re.findall(r"dist\.\w+", match[1]):
                assert (source, destination) in steps_to(op), (row.key, error)
    assert proposed > 2000


def test_the_dialects_own_table_is_this_one(build_dir):
    """`cleave-opt --dump-transitions`; there S stands for a shard of the op's dimension, or of any."""
    tool = build_dir / "bin" / "cleave-opt"
    dump = subprocess.run([tool, "--dump-transitions"], check=True, capture_output=True, text=True)
    dumped = {
        (r["op"], r["reduction"], r["source"], r["destination"])
        for r in json.loads(dump.stdout)
        if r["source"] and r["destination"]
    }
    expected = {
        (
            name.split()[0],
            (reduction or "").split("<")[0] or None,
            *("S" if shard(k) else k for k in pair),
        )
        for name, reduction in names()
        for pair in _legal(name, reduction)
    }
    assert dumped == expected

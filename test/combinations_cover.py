"""Pairwise covers of test combinations.

A full product of models, dtypes, ranks and options takes too long for every run, while almost all
defects show with two of the values together. `cover` picks combinations such that every pair of
values of any two axes that may stand together occurs in at least one. Which combinations these
are depends on the seed, so that over several days the product is visited widely;
`./dev test --all` (CLEAVE_TEST_ALL=1) runs the whole product.
"""

import datetime
import itertools
import os
import random


def seed():
    """The run's seed: CLEAVE_TEST_SEED, or today's date as YYYYMMDD."""
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
    return int(os.environ.get("CLEAVE_TEST_SEED") or today)


def run_all():
    """Whether the full product is asked for."""
    return os.environ.get("CLEAVE_TEST_ALL", "0") not in ("", "0")


def part_of_today(cases, parts=2):
    """Each `parts`-th of the cases, another part by the run's seed; all with CLEAVE_TEST_ALL=1."""
    return cases if run_all() else cases[seed() % parts :: parts]


def cover(axes, allowed=lambda combination: True, order=None):
    """Combinations of `axes` (a dict from axis name to a list of values) as a list of dicts.

    `allowed` tells which combinations make sense. With CLEAVE_TEST_ALL all that are allowed are
    given, otherwise a greedy pairwise cover of them: the run's, or with `order` always the same.
    """
    names = list(axes)
    product = [dict(zip(names, values)) for values in itertools.product(*axes.values())]
    product = [combination for combination in product if allowed(combination)]
    if run_all():
        return product
    random.Random(seed() if order is None else order).shuffle(product)

    def pairs(combination):
        return set(itertools.combinations([(name, combination[name]) for name in names], 2))

    wanted = set().union(*map(pairs, product)) if product else set()
    if len(names) < 2:
        return product
    chosen = []
    while wanted:
        best = max(product, key=lambda combination: len(pairs(combination) & wanted))
        chosen.append(best)
        wanted -= pairs(best)
    return chosen


def name(combination):
    """A test id: `gpt-bf16-2`."""
    return "-".join(str(value) for value in combination.values())

"""What the rows of the table do, in words."""

REDUCED = {
    "sum": "the sum of all terms",
    "avg": "the mean of all terms",
    "premul_sum<0.5>": "0.5 times the sum of all terms",
    "max": "the largest of the terms, elementwise",
    "min": "the smallest of the terms, elementwise",
    "product": "the product of all terms",
    "band": "the bitwise and of all terms",
    "bor": "the bitwise or of all terms",
    "bxor": "the bitwise exclusive or of all terms",
}
FORWARD = {
    "all_reduce": "every rank gets {reduced}",
    "reduce_scatter": "rank i gets part i of {reduced}",
    "reduce": "the root gets {reduced}, the others zeros",
    "all_gather": "every rank gets all parts, concatenated",
    "all_to_all": "rank i gets part i of every rank's value, concatenated",
    "broadcast": "every rank gets the root's value",
    "gather": "the root gets all values, concatenated, the others zeros",
    "scatter": "rank i gets part i of the root's value",
    "permute": "each rank gets another rank's value, or zeros",
    "shift": "rank i gets the value of rank i - by; the first get zeros",
    "shift wrap": "rank i gets the value of rank i - by, around the end",
    "fake_broadcast": "nothing moves: each rank goes on with its copy",
    "fake_reduce": "every rank gets the sum, from now on one value",
    "fake_scatter": "nothing moves: rank i goes on with part i",
    "fake_gather": "every rank gets all parts concatenated, from now on one value",
}


def forward(row):
    """The row's forward in words."""
    if row.name in FORWARD:
        return FORWARD[row.name].format(reduced=REDUCED.get(row.reduction))
    part = row.source == "V" or row.source.startswith("S")
    whole = row.destination == "V" or row.destination.startswith("S")
    if row.name == "reinterpret":
        if (row.source, row.destination) == ("R", "P"):
            return "nothing moves: the copies become terms, the meaning is N times the value"
        if row.source == "R":
            return "nothing moves: the copies become values of their own"
        if row.destination.startswith("P"):
            return "nothing moves: the values become terms"
        if row.destination == "V":
            return "nothing moves: the parts become a list"
        return "nothing moves: the list becomes its concatenation"
    if part:
        return "each rank's part is padded with zeros to a term"
    if whole:
        return "each rank keeps its part"
    if row.destination == "P":
        return "the first rank keeps the value as a term, the others have zeros"
    return "nothing moves"


def campaign(record):
    """What the last large run of random programs found (campaign.json)."""
    lines = [
        "## Random programs\n",
        "`test/conformance/campaign.py` draws typed programs of the ops above and of pointwise ops, matrix products, sums and",
        "transposes, and compares loss and gradients with autograd of their denotation; `./dev test` runs 1,000 with another",
        f"seed each day. On {record['date']} it ran {record['programs']:,} (seed {record['seed']}) in {record['seconds'] // 60}"
        f" minutes: the largest difference was {record['worst']:g},",
        "relative to the largest element of the gradient (at least 1e-3). Mutants of a tenth of them were refused, or stayed right: they had the",
        "gradients of what they then denoted, which for some is what they denoted before.\n",
        "| mutation | refused | accepted, same gradients as before | accepted, right for another meaning |",
        "| --- | --- | --- | --- |",
    ]
    meanings = {
        "drop": "a dist op dropped",
        "type": "a value's type changed on one axis",
        "reduction": "a reduction exchanged for another",
        "axis": "an op moved to the mesh's other axis",
        "gradient type": "a parameter's R made I, or I made R",
    }
    for kind, counts in record["mutants"].items():
        cells = [meanings[kind], *(f"{counts[k]:,}" for k in ("refused", "unchanged", "right"))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"

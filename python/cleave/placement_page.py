"""`python -m cleave.placement_page explain.json -o placements.html`: a page that shows placements.

One self-contained page with the model's modules, the placement of each tensor and the reason for it, and
each collective with its size, from the output of `cleave-opt --propagate-placements=explain-json=FILE`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
from typing import Any

_TEMPLATE = pathlib.Path(__file__).with_name("placement_page.html")
# Ways that a reason lists: the cheapest ones, and the one that was chosen.
_MOST_WAYS = 8


class PageError(Exception):
    """A file that is not an explanation, or cannot be read or written."""


def _module(location: str) -> str:
    """`h.0.attn` of `h.0.attn (gpt.py:57)`; "" where only the file is known."""
    found = re.match(r"^([^\s()]+) \(", location)
    if found:
        return found[1]
    return "" if re.search(r":\d+$", location) else location


def _tensor(tensor: dict[str, Any]) -> dict[str, Any]:
    shape = tensor["shape"]
    role, op = tensor.get("role"), tensor.get("op")
    name = tensor.get("role_name", "")
    location = tensor.get("location", "")
    if op:
        label = op if not tensor.get("result") else f"{op} #{tensor['result']}"
        module = _module(location)
    else:
        label = f"{role or 'argument'} {name}".strip()
        # A parameter belongs to the module that its name says.
        module = name.rpartition(".")[0] if role not in ("input", "target", "output") else ""
    reasons = []
    for reason in tensor.get("reasons", ()):
        costs = reason.get("costs", ())
        ways = sorted(costs, key=lambda way: (not way["chosen"], way["seconds"]))
        kept = {k: reason[k] for k in ("axis", "kind", "text", "from", "root", "location") if k in reason}
        # `#train.role<input "tokens" batch 0>` as one would say it.
        kept["text"] = re.sub(r'#train\.role<(\w+(?: "[^"]*")?)[^>]*>', r"\1", kept["text"])
        reasons.append({**kept, "costs": ways[:_MOST_WAYS], "more": len(ways[_MOST_WAYS:])})
    element = re.search(r"(?:<|x)([a-z]+[0-9]+)(?:,|>)", tensor["type"])
    return {
        "id": tensor["id"], "label": label, "module": module, "location": location, "op": op,
        "op_id": tensor.get("op_id"), "backward": tensor.get("backward", False) or op == "train.accumulate", "role": role,
        "shape": shape, "local": tensor.get("local_shape", shape), "bytes": tensor["bytes"],
        "dtype": element[1] if element else "", "placement": tensor["placement"], "reasons": reasons,
    }  # fmt: skip


def _function(function: dict[str, Any]) -> dict[str, Any]:
    moves = []
    for move in function.get("redistributions", ()):
        uses = [{**use, "module": _module(use.get("location", ""))} for use in move["uses"]]
        moves.append({**move, "uses": uses})
    forms = [{**form, "module": _module(form.get("location", ""))} for form in function.get("forms", ())]
    return {
        "name": function["name"],
        "phase": function.get("phase", ""),
        "tensors": [_tensor(tensor) for tensor in function["tensors"]],
        "moves": moves,
        "forms": forms,
    }


def render(explanation: dict[str, Any], name: str = "") -> str:
    """The page for an explanation, as `explain-json` has it. PageError where it is none."""
    try:
        if explanation["version"] != 1:
            raise PageError(f"expected version 1 of the explanation, found {explanation['version']!r}")
        page = {
            "name": name,
            "axes": explanation["mesh"]["axes"],
            "functions": [_function(function) for function in explanation["functions"]],
        }
        if not page["functions"]:
            raise PageError("the explanation has no functions")
    except (KeyError, TypeError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise PageError(
            f"expected the output of --propagate-placements=explain-json, found {what}"
        ) from None
    # "</script" inside a string would end the script element.
    text = json.dumps(page, separators=(",", ":")).replace("<", "\\u003c")
    before, after = _TEMPLATE.read_text(encoding="utf-8").split("/*DATA*/null")
    return before + text + after


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cleave.placement_page", description=__doc__)
    parser.add_argument("explanation", help="JSON file written by --propagate-placements=explain-json=FILE")
    parser.add_argument("-o", "--out", help="output file (default: the JSON file's name with .html)")
    parser.add_argument("--name", help="program name for the title (default: the program's own)")
    options = parser.parse_args(argv)
    source = pathlib.Path(options.explanation)
    out = pathlib.Path(options.out) if options.out else source.with_suffix(".html")
    try:
        try:
            explanation = json.loads(source.read_text(encoding="utf-8"))
        except OSError as error:
            raise PageError(f"cannot read {source}: {error.strerror or error}") from None
        except ValueError as error:
            raise PageError(f"{source}: expected JSON: {error}") from None
        except RecursionError:
            raise PageError(f"{source}: brackets are nested too deeply") from None
        program = explanation.get("program") if isinstance(explanation, dict) else None
        text = render(explanation, options.name or program or source.stem)
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise PageError(f"cannot write {out}: {error.strerror or error}") from None
    except PageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

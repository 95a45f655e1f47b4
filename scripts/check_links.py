"""Checks that relative links in the project's Markdown files, and source files named in them, exist.

Usage: check_links.py. Prints each broken one as FILE:LINE and exits with 1 if there is any.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# `dialects/aten/Aten.h` in running text: a path with a folder and a suffix, without wildcards.
NAMED = re.compile(r"`((?:bench|cmake|dialects|docs|examples|include|lib|passes|python|runtime|scripts|test|tools)/[\w./-]+\.\w+)`")
# `passes/AREA/Passes.td` stands for any area.
PLACEHOLDER = re.compile(r"(^|/)([A-Z]{4,}|DoThis)(/|\.)")


def targets(line):
    for match in LINK.finditer(line):
        yield match.group(1), False
    for match in NAMED.finditer(line):
        yield match.group(1), True


def main():
    files = subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).split()
    broken = 0
    for name in files:
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            for target, from_root in targets(line):
                if re.match(r"[a-z]+:|#", target) or PLACEHOLDER.search(target):
                    continue
                base = ROOT if from_root else (ROOT / name).parent
                if not (base / target.split("#")[0]).exists():
                    print(f"{name}:{number}: nothing at {target}")
                    broken += 1
    print(f"{len(files)} documents, {broken} broken links")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

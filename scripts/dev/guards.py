"""Checks or writes the include guards of headers: CLEAVE_LIB_TYPING_CHECK_H for lib/typing/Check.h.

    python3 scripts/dev/guards.py [--check] HEADER...

Paths are relative to the root; `include/` is not part of the name. Without `--check` a wrong guard, or
`#pragma once`, is replaced. With it, headers with another guard are named, and the status is 1.
"""

import pathlib
import re
import sys

PRAGMA = re.compile(r"^#pragma once\n", re.MULTILINE)
GUARD = re.compile(r"^#ifndef (\w+)\n#define \1\n(.*)^#endif(?: // \w+)?\n\Z", re.MULTILINE | re.DOTALL)


def guard_of(path):
    name = re.sub(r"[^A-Z0-9]", "_", path.removeprefix("include/").upper())
    return name if name.startswith("CLEAVE_") else "CLEAVE_" + name


def guarded(path, text):
    """The text with the guard that the path asks for, around all but the first comment."""
    name = guard_of(path)
    if found := GUARD.search(text):
        head, body = text[: found.start()], found[2].strip("\n")
    else:
        text = PRAGMA.sub("", text, count=1)
        head = re.match(r"(?://.*\n)*", text)[0]
        body = text[len(head) :].strip("\n")
        head = head + "\n" if head else ""
    middle = body + "\n\n" if body else ""
    return f"{head}#ifndef {name}\n#define {name}\n\n{middle}#endif // {name}\n"


def main(arguments):
    is_check = arguments[:1] == ["--check"]
    status = 0
    for path in arguments[is_check:]:
        file = pathlib.Path(path)
        text = file.read_text()
        wanted = guarded(path, text)
        if wanted == text:
            continue
        if is_check:
            print(f"{path}: expected the include guard {guard_of(path)}")
            status = 1
        else:
            file.write_text(wanted)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

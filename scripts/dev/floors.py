"""Checks includes against floors.txt: which folders may include which.

    python3 scripts/dev/floors.py [ROOT]

A line `ROOM: ROOM...` lets files of the first room include those of the others. Every room stands
below those that it may include, so that the list has no cycle. A file belongs to the longest room
that its path begins with. Errors name both files; the status is 1 if there is any.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def read_floors(path):
    """The rooms that each room may see, itself included, in the order of the file."""
    floors = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        room, colon, seen = (part.strip() for part in line.partition(":"))
        if not colon or room in floors:
            raise SystemExit(f"{path}:{number}: expected 'ROOM: ROOM...' with a new room, found '{line}'")
        if unknown := [other for other in seen.split() if other not in floors]:
            raise SystemExit(
                f"{path}:{number}: expected rooms that are listed above '{room}', found {', '.join(unknown)}"
            )
        floors[room] = {room, *seen.split()}
    return floors


def room_of(path, floors):
    """The longest room that the path, relative to the root, begins with."""
    rooms = [room for room in floors if path.startswith(room + "/")]
    return max(rooms, key=len, default=None)


def included_files(path, root):
    """Files of the tree that a file includes: relative to itself, to the root or to `include`."""
    for name in INCLUDE.findall(path.read_text()):
        for folder in (path.parent, root, root / "include"):
            if (folder / name).is_file():
                yield (folder / name).resolve().relative_to(root).as_posix()
                break


def check(root):
    """One message for each include that the list does not allow."""
    root = root.resolve()
    floors = read_floors(root / "scripts" / "dev" / "floors.txt")
    errors = []
    for top in sorted({room.split("/")[0] for room in floors}):
        for path in sorted(p for p in (root / top).rglob("*") if p.suffix in (".h", ".cpp")):
            name = path.relative_to(root).as_posix()
            room = room_of(name, floors)
            if room is None:
                errors.append(f"{name}: in no room of scripts/dev/floors.txt")
                continue
            for other in included_files(path, root):
                seen = room_of(other, floors)
                if seen not in floors[room]:
                    errors.append(f"{name} includes {other}: {room} may not see {seen or 'files of no room'}")
    return errors


if __name__ == "__main__":
    messages = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print(*messages, sep="\n", end="\n" if messages else "")
    sys.exit(1 if messages else 0)

#!/usr/bin/env bash
# check.sh BUILD: installs Cleave from its build tree, builds this example against it, runs its tests.
set -euo pipefail
build=$(realpath "${1:?usage: check.sh BUILD}")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
work=$build/examples/out-of-tree-pass
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
cmake --build "$work/build" --target check

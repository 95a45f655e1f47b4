#!/usr/bin/env bash
# check_installed.sh BUILD: installs Cleave from its build tree, builds the examples that use an
# installed Cleave, and runs their tests.
set -euo pipefail
build=$(realpath "${1:?usage: check_installed.sh BUILD}")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
work=$build/installed
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
for example in out-of-tree-pass embed-session; do
  echo "-- examples/$example"
  cmake -S "$here/$example" -B "$work/$example" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
  cmake --build "$work/$example" >/dev/null
  ctest --test-dir "$work/$example" --output-on-failure --no-tests=error
done

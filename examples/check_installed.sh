#!/usr/bin/env bash
# check_installed.sh BUILD: installs Cleave from its build tree, builds the examples that use an
# installed Cleave, and runs their tests; exports and runs a program with only what is installed.
set -euo pipefail
build=$(realpath "${1:?usage: check_installed.sh BUILD}")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
work=$build/installed
rm -rf "$work"
# A build for one purpose leaves tools out; they are made for the installation.
rm -f "$build/bin/cleave-reduce"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
"$work/prefix/bin/cleave-reduce" --version >/dev/null

echo "-- the Python package and the tools"
python=$(sed -n 's/^CLEAVE_PYTHON:[^=]*=//p' "$build/CMakeCache.txt")
(
  cd "$work"
  export PYTHONPATH=$work/prefix/lib/cleave/python PATH=$work/prefix/bin:$PATH
  cat >plan.json <<'PLAN'
{"mesh": [["dp", 2]], "rules": [{"style": "data", "axis": "dp"}]}
PLAN
  "$python" -m cleave.export "$here/gpt.py:tied" -o out
  cleave-opt out/gpt_tied.mlir --annotate-placements=plan=plan.json \
    --propagate-placements=explain-json=explained.json --partition -o out/gpt.dp.mlirbc
  "$python" -m cleave.placement_page explained.json -o placements.html
  "$python" -c 'import cleave, cleave.native
print(cleave.load("out/gpt_tied.mlir").run_passes("cse"), "in", cleave.native.native().__file__)'
  cleave-run out/gpt.dp.mlirbc --weights out/gpt_tied.safetensors --ranks 2 --steps 2 \
    --data "text:$here/gpt.py" --quiet
)
for example in out-of-tree-pass embed-session; do
  echo "-- examples/$example"
  cmake -S "$here/$example" -B "$work/$example" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
  cmake --build "$work/$example" >/dev/null
  ctest --test-dir "$work/$example" --output-on-failure --no-tests=error
done

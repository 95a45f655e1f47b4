# build.sh - configuring, building, formatting.

# build_dir PRESET: where CMakePresets.json puts it; for another PyTorch than the default, beside that.
build_dir() {
  local dir=build
  [ "$1" = release ] || dir=build-$1
  echo "$dir${torch:+-torch-$torch}"
}

check_preset() {
  case $1 in
  release | debug | asan+ubsan) ;;
  *) die "no preset '$1'; expected release, debug or asan+ubsan" ;;
  esac
}

# build_preset PRESET [TARGET...]
build_preset() {
  local preset=$1 dir
  shift
  dir=$(build_dir "$preset")
  [ -f "$dir/build.ninja" ] || step "configuring $dir" cmake --preset "$preset" \
    ${torch:+-B "$dir" -D CLEAVE_PYTHON="$PWD/$venv/bin/python3"}
  step "building $dir (10 to 35 minutes on 2 cores, seconds when little changed)" \
    cmake --build "$dir" -j "$jobs" ${@:+--target "$@"}
}

# run_format [--check]: formats, or names the files that are not formatted and fails.
run_format() {
  local list=(git ls-files -z '*.h' '*.cpp') guards=(git ls-files -z '*.h') status=0
  if [ "${1:-}" != --check ]; then
    "${guards[@]}" | xargs -0 -r python3 scripts/dev/guards.py
    "${list[@]}" | xargs -0 -r clang-format-22 -i
    return
  fi
  "${guards[@]}" | xargs -0 -r python3 scripts/dev/guards.py --check || status=1
  "${list[@]}" | xargs -0 -r -n 16 -P "$jobs" clang-format-22 --dry-run 2>&1 |
    sed -n 's/^\(.*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort -u |
    { ! grep . ; } || status=1
  [ $status = 0 ] || say "not formatted: run ./dev format"
  return $status
}

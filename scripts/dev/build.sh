# build.sh - configuring, building, formatting.

# build_dir PRESET: where CMakePresets.json puts it.
build_dir() { [ "$1" = release ] && echo build || echo "build-$1"; }

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
  [ -f "$dir/build.ninja" ] || step "configuring $dir" cmake --preset "$preset"
  step "building $dir (up to 12 minutes on 2 cores, seconds when little changed)" \
    cmake --build "$dir" -j "$jobs" ${@:+--target "$@"}
}

# run_format [--check]
run_format() {
  local mode=-i
  [ "${1:-}" = --check ] && mode="--dry-run -Werror"
  # shellcheck disable=SC2086
  git ls-files -z '*.h' '*.cpp' | xargs -0 -r clang-format-22 $mode
}

# steps.sh - saying what is done and how long it took.

jobs=${CLEAVE_JOBS:-$(nproc)}

say() { printf '%s\n' "$*"; }

die() {
  printf 'dev: %s\n' "$*" >&2
  exit 1
}

# step TEXT COMMAND...: runs a command and says how long it took. On a terminal its output is
# shown; otherwise it goes to a log, of which the end is shown when the command fails.
step() {
  local text=$1 start=$SECONDS rc=0 log
  shift
  printf '==> %s\n' "$text"
  if [ -t 1 ]; then
    "$@" || rc=$?
  else
    log=$(mktemp -t cleave-dev.XXXXXX)
    "$@" >"$log" 2>&1 </dev/null || rc=$?
    [ $rc = 0 ] || tail -n 60 "$log"
    rm -f "$log"
  fi
  [ $rc = 0 ] || die "$text failed (exit status $rc)"
  printf '    %s s\n' $((SECONDS - start))
}

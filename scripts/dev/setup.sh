# setup.sh - system packages and the Python environment.

packages=(
  clang-22 g++ cmake ninja-build ccache git python3 python3-venv
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools lld-22
  libgtest-dev zlib1g-dev libzstd-dev
)

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# setup_packages PACKAGE...: installs those that are missing, as root or through sudo.
setup_packages() {
  command -v dpkg-query >/dev/null ||
    die "expected a Debian system (12 is tested), found no dpkg; install the equivalents of: $*"
  local missing=() absent=() as_root=() package
  for package; do
    installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      die "needs root or sudo to install these packages: ${missing[*]}"
    as_root=(sudo)
  fi
  step "updating the list of packages" "${as_root[@]}" apt-get update
  for package in "${missing[@]}"; do
    [ -n "$(apt-cache --quiet=0 policy "$package" 2>/dev/null | sed -n 's/^ *Candidate: *//p' | grep -v '(none)')" ] ||
      absent+=("$package")
  done
  [ ${#absent[@]} = 0 ] ||
    die "not in this machine's package archives: ${absent[*]} (LLVM 22 for Debian 12 is in" \
      "bookworm-security; is that in /etc/apt/sources.list.d?)"
  step "installing ${missing[*]}" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

# The environment is named by what it holds, so that checkouts share it; `.complete` is written
# last, so that a broken-off installation is never taken for a whole one.
setup_python() {
  local key cache venv free
  key=$(cat python/requirements.lock python/requirements-nodeps.lock | sha256sum | cut -c1-12)
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/cleave
  venv=$cache/venv-$key
  mkdir -p "$cache"
  (
    flock 9
    [ -f "$venv/.complete" ] && exit
    free=$(df --output=avail -B1G "$cache" 2>/dev/null | tail -n 1)
    [ "$free" -ge 8 ] || die "expected 8 GB free in $cache for the Python packages, found $free"
    rm -rf "$venv"
    step "making the Python environment $venv (2 to 5 minutes)" install_python "$venv"
    touch "$venv/.complete"
  ) 9>"$cache/venv-$key.lock"
  [ "$(readlink .venv || true)" = "$venv" ] || ln -sfn "$venv" .venv
}

install_python() {
  local pip=("$1/bin/pip" --disable-pip-version-check --no-input install --require-hashes)
  python3 -m venv "$1" &&
    "${pip[@]}" -r python/requirements.lock &&
    "${pip[@]}" --no-deps -r python/requirements-nodeps.lock
}

setup_all() {
  setup_packages "${packages[@]}"
  setup_python
}

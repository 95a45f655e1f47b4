# setup.sh - system packages and the Python environment.

packages=(
  clang-22 g++ cmake ninja-build ccache git python3 python3-dev python3-venv
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

# make_environment LINK NAME GIGABYTES TIME LOCK...: a Python environment with the packages of hash-locked
# lists. It is named by what it holds, so that checkouts share it; `.complete` is written last, so that an
# interrupted installation is never taken for a whole one.
make_environment() {
  local link=$1 name=$2 needed=$3 time=$4 key cache venv free
  shift 4
  key=$(cat "$@" | sha256sum | cut -c1-12)
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/cleave
  venv=$cache/$name-$key
  mkdir -p "$cache"
  (
    flock 9
    [ -f "$venv/.complete" ] && exit
    free=$(df --output=avail -B1G "$cache" 2>/dev/null | tail -n 1)
    [ "$free" -ge "$needed" ] ||
      die "expected $needed GB free in $cache for the Python packages, found $free"
    rm -rf "$venv"
    step "making the Python environment $venv ($time)" install_python "$venv" "$@"
    touch "$venv/.complete"
  ) 9>"$venv.lock"
  [ "$(readlink "$link" || true)" = "$venv" ] || ln -sfn "$venv" "$link"
}

# install_python VENV LOCK...
install_python() {
  local venv=$1 lock
  local pip=("$venv/bin/pip" --disable-pip-version-check --no-input install --require-hashes)
  shift
  python3 -m venv "$venv" || return
  for lock; do
    case $lock in
    *-nodeps.lock) "${pip[@]}" --no-deps -r "$lock" ;;
    *) "${pip[@]}" -r "$lock" ;;
    esac || return
  done
}

# The version of PyTorch that --torch asks for; empty for that of python/requirements.lock.
torch=
venv=.venv

default_torch() { sed -n 's/^torch==//p' python/requirements.in; }

# choose_torch VERSION
choose_torch() {
  local known lock
  known=$(default_torch)
  [ "$1" = "$known" ] && return
  if [ ! -f "python/torch-$1-nodeps.lock" ] || [ -z "$1" ]; then
    for lock in python/torch-*-nodeps.lock; do
      lock=${lock#python/torch-}
      known+=" or ${lock%-nodeps.lock}"
    done
    die "--torch expects $known, found '$1'"
  fi
  torch=$1
  venv=.venv-torch-$1
}

# Another version of PyTorch has an environment with what differs, over the default one. LibTorch looks for CUDA's
# libraries beside itself.
setup_python() {
  local default packages library
  make_environment .venv venv 8 "2 to 5 minutes" python/requirements.lock python/requirements-nodeps.lock
  [ -n "$torch" ] || return 0
  default=$(readlink -f .venv)
  make_environment "$venv" "venv-torch-$torch-${default##*-}" 3 "1 to 3 minutes" "python/torch-$torch-nodeps.lock"
  default=$(echo "$default"/lib/python3*/site-packages)
  packages=$(echo "$venv"/lib/python3*/site-packages)
  echo "$default" >"$packages/default.pth"
  for library in "$default"/nvidia/*; do
    [ -e "$packages/nvidia/${library##*/}" ] || ln -sfn "$library" "$packages/nvidia/"
  done
}

# What builds the documentation is apart: only those who build it need it.
setup_docs_python() { make_environment .venv-docs venv-docs 1 "up to a minute" python/requirements-docs.lock; }

setup_all() {
  setup_packages "${packages[@]}"
  setup_python
}

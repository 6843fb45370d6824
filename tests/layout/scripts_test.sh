#!/usr/bin/env bash
# The root scripts' usage, and when the model counts as checked.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  printf 'failed: %s\n' "$1"
  exit 1
}

# expect_status STATUS COMMAND...
expect_status() {
  local expected=$1 status=0
  shift
  "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
  ((status == expected)) || fail "$*: expected exit status $expected, got $status"
}

expect_status 2 "$repository/quickstart"
[[ ! -s $scratch/out && -s $scratch/err ]] || fail "a usage error belongs on stderr"
expect_status 2 "$repository/quickstart" --temp 0
expect_status 0 "$repository/quickstart" --help
[[ -s $scratch/out && ! -s $scratch/err ]] || fail "help belongs on stdout"
expect_status 2 "$repository/check" --no-such-flag

# A small file stands in for the model, and fetching only counts.
unset ENGINE_MODEL
# shellcheck source=scripts/setup.sh
source "$repository/scripts/setup.sh"
n_fetched=0
fetch_model() {
  n_fetched=$((n_fetched + 1))
  printf weights >"$model_file"
}
model_file=$scratch/model.gguf
# shellcheck disable=SC2034  # read by setup.sh
model_sha256=$(printf weights | sha256sum | cut -d ' ' -f 1)

# expect_fetches N WHAT: after ensure_model, N fetches have happened and the file counts as checked.
expect_fetches() {
  ensure_model 2>/dev/null
  ((n_fetched == $1)) || fail "$2: expected $1 fetches so far, got $n_fetched"
  is_checked "$model_file" || fail "$2: the file does not count as checked"
}

expect_fetches 1 "no file"
expect_fetches 1 "a checked file"
rm "$model_file.stamp"
expect_fetches 1 "a good file without a stamp"
touch -d '1 hour ago' "$model_file"
! is_checked "$model_file" || fail "a file changed after its check counts as checked"
expect_fetches 1 "a touched file"
printf damaged >"$model_file"
expect_fetches 2 "a damaged file"

#!/bin/sh
# Two copies of a program on this machine: one leads, it is killed, and the other one takes over.
#
#   examples/failover.sh              with `tenure` from the PATH
#   TENURE=target/release/tenure examples/failover.sh
set -eu

tenure=${TENURE:-tenure}
folder=$(mktemp -d)
export LOG="$folder/log" TENURE_DIR="$folder/store"
unset TENURE_STORE

# Whatever happens, nothing is left behind.
finish() {
  for pid in ${first:-} ${second:-}; do
    kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM

# Becomes a copy of the program, which says who it is when it leads.
copy() {
  export NAME="$1"
  exec "$tenure" run --quiet --election failover -- \
    sh -c 'echo "$NAME leads, term $TENURE_TOKEN" | tee -a "$LOG"; exec sleep 1000'
}

# Waits until a copy has said that it leads.
wait_for() {
  tries=0
  until grep -q "^$1 leads" "$LOG" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -ge 300 ]; then
      echo "the $1 copy does not lead" >&2
      exit 1
    fi
    sleep 0.1
  done
}

copy first &
first=$!
wait_for first
copy second &
second=$!

echo "killing the first copy"
kill -KILL "$first"
wait "$first" 2>/dev/null || true
first=
wait_for second

"$tenure" history failover

#!/usr/bin/env bash
# Have rclone upload now what it still holds: flush-uploads.sh SOCKET SECONDS
# Ends with 1 when something is left after that time; rclone keeps it and tries again at its next start.
set -euo pipefail

socket=$1
deadline=$((SECONDS + $2))
here=$(dirname "$(readlink -f "$0")")
rclone=${RCLONE:-$here/../../bin/rclone}

rc() { timeout 10 "$rclone" rc --unix-socket "$socket" "$@" 2>/dev/null; }

# The ids of all uploads that wait or run, one per line; fails when rclone doesn't answer.
waiting() {
  local queue
  queue=$(rc vfs/queue) || return 1
  sed -n 's/^.*"id": *\([0-9]*\).*$/\1/p' <<<"$queue"
}

if [ ! -S "$socket" ] || ! ids=$(waiting); then
  exit 0 # rclone is gone: nobody is there who could upload
fi
while [ -n "$ids" ]; do
  for id in $ids; do
    rc vfs/queue-set-expiry "id=$id" expiry=-1e9 >/dev/null || true
  done
  if [ $SECONDS -ge $deadline ]; then
    echo "$(wc -w <<<"$ids") uploads are left; rclone makes them after its next start" >&2
    exit 1
  fi
  sleep 0.5
  ids=$(waiting) || exit 1
done

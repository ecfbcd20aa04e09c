#!/bin/sh
# Mounts $REMOTE below /mnt/vault for as long as its container runs. It stands between Docker and rclone,
# because rclone leaves three things undone: it can't mount over what a killed rclone left, it gives its socket
# to nobody else, and when it is stopped it doesn't upload what it still holds.
# shellcheck disable=SC2317  # what a trap calls is reached
set -eu

mount=/mnt/vault/drive
socket=/run/rclone/rc.sock
# The server's group may use the socket, and nobody else.
umask 007

detach() {
  fusermount3 -uz "$mount" 2>/dev/null || true
}

uploads_are_done() {
  rclone rc --unix-socket "$socket" vfs/stats 2>/dev/null |
    awk '/"uploads(InProgress|Queued)"/ { left += $2 } END { exit left > 0 }'
}

stop() {
  trap '' TERM INT
  left=${FLUSH_SECONDS:-45}
  until uploads_are_done || [ "$left" -le 0 ]; do
    sleep 1
    left=$((left - 1))
  done
  detach
  kill -TERM "$rclone" 2>/dev/null || true
}

detach
rm -f "$socket"
mkdir -p "$mount"
# While nothing is mounted there, nothing can be written there.
chmod 0555 "$mount"

# MOUNT_FLAGS are words of their own.
# shellcheck disable=SC2086
rclone mount "$REMOTE" "$mount" \
  --config "${RCLONE_CONFIG:-/run/secrets/rclone_conf}" --cache-dir /var/cache/rclone \
  --allow-other --default-permissions --uid 10001 --gid 10001 --umask 0077 \
  --vfs-cache-mode writes --vfs-handle-caching 0s --vfs-write-back 5s \
  --vfs-cache-max-age 1h --vfs-cache-min-free-space 1G \
  --dir-cache-time 5m --poll-interval 15s --attr-timeout 1s --vfs-refresh --fast-list \
  --drive-skip-gdocs --drive-skip-shortcuts \
  --timeout 20s --contimeout 10s --low-level-retries 3 \
  --rc --rc-addr "unix://$socket" --rc-no-auth \
  --log-level NOTICE ${MOUNT_FLAGS:-} &
rclone=$!
trap stop TERM INT

# A signal ends the first wait; the second one gets rclone's own end.
status=0
wait "$rclone" || status=$?
wait "$rclone" 2>/dev/null || true
detach
exit "$status"

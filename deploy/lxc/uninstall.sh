#!/usr/bin/env bash
# Removes vault-mcp from the container. The vault is on its remote and is never touched.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=deploy/lxc/lib.sh
. "$here/lib.sh"

usage() {
  cat <<END
Usage: uninstall.sh [--purge]      (as root, inside the container)

Stops and removes the services and the programs. Settings, tokens, history, backups and the rclone
configuration stay, so that install.sh goes on where this ended.

  --purge   remove those too; refused while writes or uploads are unfinished
END
}

refuse_unfinished() {
  if [ -x $CURRENT/bin/vault-mcp ] && [ -f $CONFIG/config.yaml ] && [ "$(vault_mcp journal --json)" != "[]" ]; then
    die "there are unfinished writes (vault-mcp journal); start the server and wait, or leave out --purge"
  fi
  RCLONE=$CURRENT/bin/rclone "$here/flush-uploads.sh" $RC_SOCKET 20 ||
    die "rclone still has uploads to make; wait for them, or leave out --purge"
}

# The newest first: what depends on others stops before them.
stop_services() {
  local unit
  for unit in vault-mcp-tailscale.service vault-mcp-backup.timer vault-mcp.service vault-mcp-mount.service; do
    if [ -f "$UNITS/$unit" ]; then systemctl disable --quiet --now "$unit"; fi
  done
  ! is_mounted || die "$MOUNT_POINT is still mounted; see what holds it: fuser -vm $MOUNT_POINT"
}

remove_programs() {
  rm -f $UNITS/vault-mcp*.service $UNITS/vault-mcp*.timer $UNITS/caddy.service.d/vault-mcp.conf
  rmdir --ignore-fail-on-non-empty $UNITS/caddy.service.d 2>/dev/null || true
  systemctl daemon-reload
  if systemctl is-active --quiet caddy.service; then systemctl restart caddy.service || true; fi
  rm -f /usr/local/bin/vault-mcp /usr/local/bin/vault-rclone
  rm -rf $ROOT
  # Never recursively: whatever is in there isn't ours.
  rmdir $MOUNT_POINT $PARENT || say "Note: $MOUNT_POINT isn't empty and stays as it is"
}

remove_state() {
  rm -rf $CONFIG $STATE $STAGING $BACKUPS /var/lib/vault-rclone /var/cache/vault-rclone /var/lib/systemd/timers/stamp-vault-mcp-backup.timer
  userdel vault-mcp
  userdel vault-rclone
  for group in vault-mcp vault-rclone vault-rc; do groupdel $group 2>/dev/null || true; done
}

main() {
  local purge=no
  case ${1:-} in
    "") ;;
    --purge) purge=yes ;;
    --help | -h) usage && exit ;;
    *) die "no such option: $1; see --help" ;;
  esac
  need_root
  take_lock
  [ $purge = no ] || refuse_unfinished
  step "Stopping the services"
  stop_services
  step "Removing the programs"
  remove_programs
  if [ $purge = yes ]; then
    remove_state
    say "Removed, with settings and state. The vault on its remote is as it was."
  else
    say "Removed. Settings, state and backups stay in $CONFIG, $STATE and $BACKUPS."
  fi
  say "The packages caddy, fuse3 and python3-venv stay installed."
}

main "$@"

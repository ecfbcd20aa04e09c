#!/usr/bin/env bash
# Upgrades vault-mcp to the release that this script belongs to: backup, new release beside the old one,
# switch, health check. When the new one isn't well the old one is back before this script ends.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=deploy/lxc/lib.sh
. "$here/lib.sh"

usage() {
  cat <<END
Usage: upgrade.sh [OPTIONS]        (as root, inside the container)

  --wheelhouse DIR   install Python packages from there, without an index
  --wait SECONDS     how long the new release may take to be ready (default: 120)
  --force            upgrade although the server isn't ready now; the new one must only answer
  --help
END
}

wheelhouse="" wait_seconds=120 force=no
phase=looking old="" new="" archive=""

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
      --wheelhouse | --wait) [ $# -ge 2 ] || die "$1 needs a value; see --help" ;;&
      --wheelhouse) wheelhouse=$(readlink -f "$2") && shift ;;
      --wait) wait_seconds=$2 && shift ;;
      --force) force=yes ;;
      --help | -h) usage && exit ;;
      *) die "no such option: $1; see --help" ;;
    esac
    shift
  done
}

# What has to answer before and after.
pages() {
  echo /healthz
  [ $force = yes ] || echo /readyz
}

back_up() {
  archive=$BACKUPS/before-upgrade-$(date -u +%Y%m%dT%H%M%SZ).tar.gz
  step "Backup to $archive"
  vault_mcp backup "$archive" >/dev/null
}

# switch_to NAME: this release runs, with everything restarted that it changes.
switch_to() {
  local told unit
  told=$(activate "$1")
  for unit in $told; do
    case $unit in
      *.service | *.timer) systemctl is-active --quiet "$unit" || [ "$unit" = vault-mcp.service ] || continue ;;
      *) continue ;;
    esac
    case $unit in
      vault-mcp-backup.service) ;; # runs when its timer says so
      *) systemctl restart "$unit" ;;
    esac
  done
}

# Runs at the end of the script, however that comes about.
finish() {
  local status=$?
  trap - EXIT
  [ $status != 0 ] || exit 0
  case $phase in
    looking | backup) say "Nothing was changed." >&2 ;;
    build)
      rm -rf "${RELEASES:?}/$new"
      say "The new release can't be installed. Nothing was changed; $old goes on." >&2
      ;;
    switch)
      say "The new release isn't well: going back to $old." >&2
      roll_back
      ;;
  esac
  exit 1
}

roll_back() {
  set +e
  journalctl --unit vault-mcp.service --lines 20 --no-pager >&2
  switch_to "$old"
  systemctl is-active --quiet vault-mcp.service || systemctl restart vault-mcp.service
  # shellcheck disable=SC2046
  if wait_healthy "$wait_seconds" $(pages); then
    rm -rf "${RELEASES:?}/$new"
    say "ROLLED BACK: $old serves again; $new was removed. Its last lines are above." >&2
    say "The state from before the upgrade is in $archive (vault-mcp restore)." >&2
  else
    say "ROLLED BACK to $old, and that isn't ready either: run \`vault-mcp doctor\`." >&2
    say "The state from before the upgrade is in $archive (vault-mcp restore)." >&2
  fi
}

main() {
  parse "$@"
  need_root
  take_lock
  trap finish EXIT
  old=$(current_release)
  [ -n "$old" ] || die "vault-mcp isn't installed here; use install.sh"
  new=$(release_name "$wheelhouse")
  if [ "$new" = "$old" ]; then
    say "$new is what runs already."
    return
  fi
  # shellcheck disable=SC2046
  wait_healthy 15 $(pages) || die "the server isn't ready now; mend that first (vault-mcp doctor), or say --force"
  phase=backup
  back_up
  phase=build
  step "Installing $new beside $old"
  build_release "$new" "$wheelhouse"
  VAULT_MCP_CONFIG=$CONFIG/config.yaml "$RELEASES/$new/bin/vault-mcp" config check >/dev/null
  phase=switch
  step "Switching"
  switch_to "$new"
  # shellcheck disable=SC2046
  wait_healthy "$wait_seconds" $(pages)
  phase=over
  prune_releases "$old" "$new"
  say "$new serves. The old release stays in $RELEASES/$old, the backup in $archive."
}

main "$@"

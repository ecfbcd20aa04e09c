#!/usr/bin/env bash
# Installs vault-mcp inside a Debian container. Run again, it changes only what isn't as it should be.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=deploy/lxc/lib.sh
. "$here/lib.sh"

usage() {
  cat <<END
Usage: install.sh [OPTIONS]        (as root, inside the container)

Without --remote everything is installed and nothing started, so that \`vault-rclone config\`
can make the remote. With it the vault is mounted and served.

  --remote NAME:PATH     what rclone mounts: the Obsidian vault on its remote
  --folder PATH          the folder inside of it that agents get (default: all of it)
  --rclone-config FILE   an rclone.conf that knows the remote
  --lan-name NAME        a name or address of this machine in the LAN (default: its host name)
  --tailnet-name NAME    its name in the tailnet, like vault.example.ts.net
  --tailscale-serve      HTTPS in the tailnet by \`tailscale serve\` instead of Caddy
  --no-caddy             no HTTPS here: some other proxy does it
  --token NAME           what the first token is called (default: agent)
  --wheelhouse DIR       install Python packages from there, without an index
  --help
END
}

remote="" folder="" rclone_config="" lan_name="" tailnet_name="" wheelhouse="" token_name=agent
with_caddy=yes with_serve=no

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
      --remote | --folder | --rclone-config | --lan-name | --tailnet-name | --token | --wheelhouse)
        [ $# -ge 2 ] || die "$1 needs a value; see --help"
        ;;&
      --remote) remote=$2 && shift ;;
      --folder) folder=$2 && shift ;;
      --rclone-config) rclone_config=$2 && shift ;;
      --lan-name) lan_name=$2 && shift ;;
      --tailnet-name) tailnet_name=$2 && shift ;;
      --token) token_name=$2 && shift ;;
      --wheelhouse) wheelhouse=$(readlink -f "$2") && shift ;;
      --tailscale-serve) with_serve=yes ;;
      --no-caddy) with_caddy=no ;;
      --help | -h) usage && exit ;;
      *) die "no such option: $1; see --help" ;;
    esac
    shift
  done
}

check() {
  need_root
  [ -d /run/systemd/system ] || die "systemd isn't running here; run this inside the container"
  [ -c /dev/fuse ] || die "there is no /dev/fuse; on the Proxmox host: pct set ID --features fuse=1,nesting=1"
  case $remote in
    "" | *:*) ;;
    *) die "--remote is like gdrive:Obsidian, the remote's name first" ;;
  esac
  case $folder in
    /* | *..*) die "--folder is relative to the vault" ;;
  esac
  [ -z "$wheelhouse" ] || [ -f "$wheelhouse/requirements.lock" ] ||
    die "$wheelhouse is no wheelhouse; \`make dist\` makes dist/wheelhouse"
  [ -z "$rclone_config" ] || [ -f "$rclone_config" ] || die "there is no $rclone_config"
  # shellcheck disable=SC1091
  . /etc/os-release
  case $ID:${VERSION_ID:-} in
    debian:12 | debian:13) ;;
    *) say "Note: this is $PRETTY_NAME; Debian 12 and 13 are what is tested." ;;
  esac
}

install_packages() {
  local package missing=()
  for package in python3-venv fuse3 curl ca-certificates $([ $with_caddy = no ] || echo caddy); do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  step "Installing ${missing[*]}"
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

make_users() {
  local user group
  for group in vault-mcp vault-rclone vault-rc; do
    getent group $group >/dev/null || groupadd --system $group
  done
  for user in vault-mcp vault-rclone; do
    id $user >/dev/null 2>&1 ||
      useradd --system --gid $user --home-dir /var/lib/$user --no-create-home --shell /usr/sbin/nologin $user
  done
  # Who may speak to rclone: for `vault-mcp doctor`, the unit says it for the server.
  id -nG vault-mcp | grep -qw vault-rc || usermod --append --groups vault-rc vault-mcp
}

make_folders() {
  folder $ROOT 0755 root:root
  folder $RELEASES 0755 root:root
  folder $CONFIG 0755 root:root
  folder $STATE 0700 vault-mcp:vault-mcp
  # What is written goes to rclone through here: the group's, whoever makes the file.
  folder $STAGING 2750 vault-mcp:vault-rc
  folder $BACKUPS 0700 vault-mcp:vault-mcp
  folder /var/lib/vault-rclone 0700 vault-rclone:vault-rc
  folder $PARENT 0755 root:root
  # Nobody may write beneath a missing mount. fusermount3 mounts only where its user may write:
  # that is rclone's own group.
  if ! is_mounted && ! [ -d $MOUNT_POINT ]; then
    install -d -m 0575 -o root -g vault-rclone $MOUNT_POINT
  fi
  grep -qx user_allow_other /etc/fuse.conf 2>/dev/null || echo user_allow_other >>/etc/fuse.conf
}

make_commands() {
  put /usr/local/bin/vault-mcp 0755 root:root <<END || true
#!/bin/sh
# vault-mcp with the settings and under the user of the service.
export VAULT_MCP_CONFIG="\${VAULT_MCP_CONFIG:-$CONFIG/config.yaml}" PYTHONDONTWRITEBYTECODE=1
[ "\$(id -u)" = 0 ] || exec $CURRENT/bin/vault-mcp "\$@"
export HOME=$STATE
exec setpriv --reuid=vault-mcp --regid=vault-mcp --init-groups $CURRENT/bin/vault-mcp "\$@"
END
  put /usr/local/bin/vault-rclone 0755 root:root <<END || true
#!/bin/sh
# rclone with the configuration and under the user of the mount: \`vault-rclone config\`.
export HOME=/var/lib/vault-rclone RCLONE_CONFIG=/var/lib/vault-rclone/rclone.conf RCLONE_CACHE_DIR=/var/cache/vault-rclone
exec setpriv --reuid=vault-rclone --regid=vault-rc --clear-groups $CURRENT/bin/rclone "\$@"
END
}

# Settings are written once; after that they are the owner's.
write_config() {
  if [ -n "$rclone_config" ] && ! [ -f /var/lib/vault-rclone/rclone.conf ]; then
    install -m 0600 -o vault-rclone -g vault-rc "$rclone_config" /var/lib/vault-rclone/rclone.conf
  fi
  [ -n "$remote" ] || return 0
  write_once $CONFIG/mount.env 0640 root:root <<END
# What is mounted, and for whom. After a change: systemctl restart vault-mcp-mount
REMOTE="$remote"
VAULT_UID=$(id -u vault-mcp)
VAULT_GID=$(id -g vault-mcp)
# More flags for rclone mount, separated by spaces.
MOUNT_FLAGS=
END
  write_once $CONFIG/config.yaml 0640 root:vault-mcp <<END
# Settings of vault-mcp; docs/configuration.md has all of them.
# After a change: vault-mcp config check && systemctl restart vault-mcp
vault_path: "$MOUNT_POINT${folder:+/$folder}"
state_dir: $STATE
staging_dir: $STAGING
host: 127.0.0.1
port: 1065
auth: token
rclone_rc: unix://$RC_SOCKET
require_mount: true
public_url: "https://${tailnet_name:-$lan_name}"
allowed_hosts: ["$lan_name"${tailnet_name:+, \"$tailnet_name\"}]
END
  write_once $CONFIG/caddy.env 0644 root:root <<END
# Names for the Caddyfile. After a change: systemctl restart caddy
LAN_NAME="$lan_name"
${tailnet_name:+TAILNET_NAME="$tailnet_name"
}
END
}

write_once() {
  if [ -e "$1" ]; then
    cat >/dev/null
  else
    put "$@"
  fi
}

# The Caddyfile is the owner's as soon as it was changed: a newer one then goes beside it.
write_caddyfile() {
  local shipped=$CURRENT/share/vault-mcp/Caddyfile mine=$CONFIG/Caddyfile record=$CONFIG/.Caddyfile.shipped
  if [ -f $mine ] && ! cmp -s $mine $record && ! cmp -s $mine $shipped; then
    cmp -s $shipped $record || say "Note: you changed $mine, so it stays; the new one is $shipped"
    return 0
  fi
  put $record 0644 root:root <$shipped || true
  if put $mine 0644 root:root <$shipped; then changed+=(caddy.service); fi
}

set_up_caddy() {
  write_caddyfile
  folder $UNITS/caddy.service.d 0755 root:root
  if put $UNITS/caddy.service.d/vault-mcp.conf 0644 root:root <<END; then
# HTTPS for vault-mcp; the package's own Caddyfile is left alone.
[Service]
EnvironmentFile=$CONFIG/caddy.env
ExecStart=
ExecStart=/usr/bin/caddy run --config $CONFIG/Caddyfile
ExecReload=
ExecReload=/usr/bin/caddy reload --config $CONFIG/Caddyfile --force
TimeoutStopSec=20s
Restart=on-failure
END
    systemctl daemon-reload
    changed+=(caddy.service)
  fi
  # Caddy gets the certificate of the tailnet name from tailscaled.
  if [ -n "$tailnet_name" ] && [ -f /etc/default/tailscaled ] && ! grep -q '^TS_PERMIT_CERT_UID=' /etc/default/tailscaled; then
    echo 'TS_PERMIT_CERT_UID=caddy' >>/etc/default/tailscaled
    changed+=(tailscaled.service)
  fi
}

# Enables and starts what isn't, restarts what changed, and leaves the rest alone.
start() {
  local unit units=(vault-mcp-mount.service vault-mcp.service vault-mcp-backup.timer)
  [ $with_caddy = no ] || units+=(caddy.service)
  [ $with_serve = no ] || units+=(vault-mcp-tailscale.service)
  for unit in "${units[@]}"; do
    systemctl is-enabled --quiet "$unit" || systemctl enable --quiet "$unit"
    if ! systemctl is-active --quiet "$unit"; then
      step "Starting $unit"
      systemctl start "$unit" || die "$unit doesn't start; see: journalctl -u $unit"
      started=yes
    elif [[ " ${changed[*]} " == *" $unit "* ]]; then
      step "Restarting $unit"
      systemctl restart "$unit" || die "$unit doesn't start; see: journalctl -u $unit"
      started=yes
    fi
  done
}

# The first token, shown this once.
make_token() {
  [ "$(vault_mcp token list --json)" = "[]" ] || return 0
  local text url
  text=$(vault_mcp token create "$token_name" --json | field token)
  url=$(vault_mcp config check --json | field PUBLIC_URL)
  cat <<END

The token of "$token_name", shown only now:
  $text
Connect Claude Code with
  claude mcp add --transport http obsidian-vault $url/mcp --header "Authorization: Bearer $text"
END
}

main() {
  parse "$@"
  check
  take_lock
  lan_name=${lan_name:-$(hostname)}
  changed=() started=no
  install_packages
  make_users
  make_folders
  local name told installed
  name=$(release_name "$wheelhouse")
  installed=$(current_release)
  if [ -n "$installed" ] && [ "$installed" != "$name" ] && is_usable "$installed"; then
    die "another release is installed ($installed); use upgrade.sh, which makes a backup first"
  fi
  is_usable "$name" || step "Installing vault-mcp ${name%-*}"
  build_release "$name" "$wheelhouse"
  make_commands
  told=$(activate "$name")
  mapfile -t changed <<<"$told"
  write_config
  [ $with_caddy = no ] || ! [ -f $CONFIG/caddy.env ] || set_up_caddy
  if ! [ -f $CONFIG/mount.env ]; then
    cat <<END

Installed; nothing runs yet. Next:
  vault-rclone config                      make the remote (docs/google-drive.md)
  $0 --remote NAME:PATH                    mount and serve it
END
    return
  fi
  vault_mcp config check >/dev/null || die "mend $CONFIG/config.yaml and run this again"
  start
  if [ $started = no ]; then
    say "Everything is as it should be; nothing was changed."
  else
    step "Waiting until the vault is served"
    wait_healthy 120 /healthz /readyz || die "the server runs and isn't ready; \`vault-mcp doctor\` says why"
    say "vault-mcp ${name%-*} serves the vault."
    [ $with_caddy = no ] || say "Clients in the LAN have to trust $AUTHORITY"
  fi
  make_token
}

main "$@"

# shellcheck shell=bash
# What install.sh, upgrade.sh and uninstall.sh share. Sourced, never run.
# The caller has set `here` to the folder of this file.
# shellcheck disable=SC2034

shopt -s inherit_errexit
# The services' users read what root installs.
umask 022

ROOT=/opt/vault-mcp
RELEASES=$ROOT/releases
CURRENT=$ROOT/current
CONFIG=/etc/vault-mcp
STATE=/var/lib/vault-mcp
STAGING=/var/lib/vault-mcp-staging
BACKUPS=/var/backups/vault-mcp
PARENT=/srv/vault-mcp
MOUNT_POINT=$PARENT/vault
RC_SOCKET=/run/vault-rclone/rc.sock
AUTHORITY=/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt
UNITS=/etc/systemd/system
PROJECT=$(readlink -f "${here:?}/../..")
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore DEBIAN_FRONTEND=noninteractive

say() { printf '%s\n' "$*"; }
step() { printf '==> %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

need_root() { [ "$(id -u)" = 0 ] || die "run this as root inside the container"; }

# One of these scripts at a time.
take_lock() {
  exec 9>/run/vault-mcp-deploy.lock
  flock -n 9 || die "another installation or upgrade is under way"
}

# put FILE MODE OWNER:GROUP <content: makes FILE so; succeeds only when that changed something.
put() {
  local file=$1 mode=$2 owner=$3 new
  new=$(mktemp /run/vault-mcp-deploy.XXXXXX)
  cat >"$new"
  if [ -f "$file" ] && cmp -s "$new" "$file"; then
    rm -f "$new"
    return 1
  fi
  # Chained: -e doesn't hold where a caller asks whether something changed.
  { install -m "$mode" -o "${owner%%:*}" -g "${owner##*:}" "$new" "$file.new" && mv -f "$file.new" "$file"; } ||
    die "can't write $file"
  rm -f "$new"
}

# folder PATH MODE OWNER:GROUP: made when absent; what is there keeps what the owner made of it.
folder() {
  [ -d "$1" ] || install -d -m "$2" -o "${3%%:*}" -g "${3##*:}" "$1"
}

is_mounted() { findmnt -n "$MOUNT_POINT" >/dev/null; }

# The command as the service runs it.
vault_mcp() { /usr/local/bin/vault-mcp "$@"; }

# --- releases: a virtual environment each, with the units and scripts that belong to it ---

# The wheel of this project in a wheelhouse, or nothing.
own_wheel() {
  find "$1" -maxdepth 1 -name 'obsidian_vault_mcp-*-py3-none-any.whl' | sort -V | tail -1
}

project_version() {
  sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$PROJECT/server/__init__.py"
}

# release_name WHEELHOUSE: version and fingerprint of all that an installation consists of.
release_name() {
  local wheel="" version
  if [ -n "$1" ]; then
    wheel=$(own_wheel "$1")
    [ -n "$wheel" ] || die "there is no obsidian_vault_mcp wheel in $1; \`make dist\` makes the wheelhouse"
    version=$(basename "$wheel" | cut -d- -f2)
  else
    version=$(project_version)
  fi
  {
    if [ -n "$1" ]; then
      sha256sum <"$wheel"
      sha256sum <"$1/requirements.lock"
    else
      (cd "$PROJECT" && find server -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum)
      sha256sum <"$PROJECT/requirements.lock"
    fi
    (cd "$here" && find . -type f -print0 | sort -z | xargs -0 sha256sum)
    sha256sum <"$PROJECT/Caddyfile"
    python3 -c 'import sys; print(*sys.version_info[:2])'
  } | sha256sum | { read -r sum _ && printf '%s-%s\n' "$version" "${sum:0:10}"; }
}

# is_usable NAME: it was installed completely, and still runs. A newer Debian takes its Python away.
is_usable() {
  [ -f "$RELEASES/$1/.complete" ] && "$RELEASES/$1/bin/vault-mcp" --version >/dev/null 2>&1
}

# build_release NAME WHEELHOUSE: installs it beside the others. What is usable is left as it is.
build_release() {
  local release=$RELEASES/$1 wheelhouse=$2
  ! is_usable "$1" || return 0
  rm -rf "$release"
  python3 -m venv "$release"
  if [ -n "$wheelhouse" ]; then
    release_pip "$release" --no-index --find-links "$wheelhouse" --require-hashes \
      -r "$wheelhouse/requirements.lock" -r "$here/rclone.lock"
    release_pip "$release" --no-index --no-deps "$(own_wheel "$wheelhouse")"
  else
    release_pip "$release" --require-hashes -r "$PROJECT/requirements.lock" -r "$here/rclone.lock"
    build_from_source "$release"
  fi
  "$release/bin/vault-mcp" --version >/dev/null
  "$release/bin/rclone" version >/dev/null
  local share=$release/share/vault-mcp
  install -d "$share/units"
  install -m 0644 "$here"/units/* "$share/units/"
  install -m 0755 "$here/flush-uploads.sh" "$here/backup.sh" "$share/"
  install -m 0644 "$PROJECT/Caddyfile" "$PROJECT/docs/install-proxmox.md" "$share/"
  touch "$release/.complete"
}

release_pip() {
  local release=$1
  shift
  "$release/bin/pip" --quiet install "$@"
}

# From a copy: a build must not write into the folder that it was called from.
build_from_source() {
  local copy
  copy=$(mktemp -d)
  cp -r "$PROJECT/server" "$PROJECT/pyproject.toml" "$PROJECT/README.md" "$PROJECT/LICENSE" "$copy/"
  release_pip "$1" --no-deps --no-build-isolation "$copy"
  rm -rf "$copy"
}

current_release() {
  if [ -L $CURRENT ]; then basename "$(readlink $CURRENT)"; fi
}

# activate NAME: this release is the one that runs from now on. Says on stdout what has to be
# restarted for it. Starts and stops nothing itself.
activate() {
  local release=$RELEASES/$1 before=/nonexistent unit name new=no
  if [ -L $CURRENT ]; then before=$(readlink -f $CURRENT); fi
  if [ "$before" != "$release" ]; then
    ln -sfn "releases/$1" $CURRENT.new
    mv -fT $CURRENT.new $CURRENT
    echo vault-mcp.service
    cmp -s "$before/bin/rclone" "$release/bin/rclone" || echo vault-mcp-mount.service
  fi
  for unit in "$release"/share/vault-mcp/units/*; do
    name=$(basename "$unit")
    if put "$UNITS/$name" 0644 root:root <"$unit"; then
      echo "$name"
      new=yes
    fi
  done
  [ $new = no ] || systemctl daemon-reload
}

# prune_releases KEEP...: removes all other releases.
prune_releases() {
  local release
  for release in "$RELEASES"/*; do
    case " $* " in
      *" $(basename "$release") "*) ;;
      *) rm -rf "$release" ;;
    esac
  done
}

# --- health ---

# field NAME <JSON
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

port() { vault_mcp config check --json | field PORT; }

# The HTTP status of a page of the server: page_status PORT PATH [TOKEN]
page_status() {
  # The token goes over stdin: the command line is for everyone to see.
  printf 'header = "Authorization: Bearer %s"\n' "${3:-none}" |
    curl --silent --output /dev/null --write-out '%{http_code}' --max-time 10 --config - "http://127.0.0.1:$1$2" || true
}

# wait_healthy SECONDS PATH...: until all of these pages answer 200.
wait_healthy() {
  local deadline=$((SECONDS + $1)) port token page status
  shift
  port=$(port)
  token=$(gate_token)
  for page in "$@"; do
    until status=$(page_status "$port" "$page" "$token") && [ "$status" = 200 ]; do
      if [ $SECONDS -ge $deadline ]; then
        say "$page answers ${status/000/nothing}"
        drop_gate_token
        return 1
      fi
      sleep 0.5
    done
  done
  drop_gate_token
}

# /readyz asks for a token: one that lives for the time of the check.
gate_token() {
  drop_gate_token
  vault_mcp token create deploy-check --read _none_ --expires 15m --json | field token
}

drop_gate_token() { vault_mcp token revoke deploy-check >/dev/null 2>&1 || true; }

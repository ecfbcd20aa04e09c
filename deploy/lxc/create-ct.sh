#!/usr/bin/env bash
# Makes the container for vault-mcp. Runs on a Proxmox VE host, as root.
set -euo pipefail

usage() {
  cat <<END
Usage: create-ct.sh [OPTIONS]      (as root, on the Proxmox host)

  --id ID                 number of the container (default: the next free one)
  --hostname NAME         (default: vault-mcp)
  --debian 12|13          (default: 13)
  --cores N               (default: 2)
  --memory MB             (default: 1024)
  --swap MB               (default: 512)
  --disk GB               (default: 8; index, mirror, history and rclone's cache live there)
  --storage NAME          where its disk is (default: local-lvm)
  --template-storage NAME where templates are (default: local)
  --bridge NAME           (default: vmbr0)
  --ip dhcp|ADDRESS/BITS  (default: dhcp)
  --gateway ADDRESS       with a fixed --ip
  --ssh-key FILE          public key for root
  --no-tun                without /dev/net/tun, which Tailscale needs
  --no-copy               don't copy this project to /root/obsidian-vault-mcp in the container
  --dry-run               print the commands and run none
  --help
END
}

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

id="" hostname=vault-mcp debian=13 cores=2 memory=1024 swap=512 disk=8 storage=local-lvm
template_storage=local bridge=vmbr0 ip=dhcp gateway="" ssh_key="" tun=yes copy=yes dry_run=no

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
      --no-tun) tun=no ;;
      --no-copy) copy=no ;;
      --dry-run) dry_run=yes ;;
      --help | -h) usage && exit ;;
      --id | --hostname | --debian | --cores | --memory | --swap | --disk | --storage | --template-storage | --bridge | --ip | --gateway | --ssh-key)
        [ $# -ge 2 ] || die "$1 needs a value; see --help"
        local name=${1#--}
        printf -v "${name//-/_}" '%s' "$2"
        shift
        ;;
      *) die "no such option: $1; see --help" ;;
    esac
    shift
  done
}

check() {
  local name
  for name in id cores memory swap disk; do
    [[ ${!name} =~ ^[0-9]*$ ]] || die "--$name is a number"
  done
  [[ $debian == 12 || $debian == 13 ]] || die "--debian is 12 or 13"
  [ "$ip" = dhcp ] || [[ $ip == */* ]] || die "--ip is dhcp or like 192.168.1.20/24"
  [ "$ip" = dhcp ] || [ -n "$gateway" ] || die "--ip needs --gateway, like 192.168.1.1"
  [ -z "$ssh_key" ] || [ -f "$ssh_key" ] || die "there is no $ssh_key"
  for name in pct pveam pvesh; do
    command -v "$name" >/dev/null || die "there is no $name here; run this on the Proxmox host"
  done
  id=${id:-$(pvesh get /cluster/nextid)}
  ! pct status "$id" >/dev/null 2>&1 || die "container $id exists already; choose another --id"
}

# Everything that changes something goes through here.
run() {
  if [ $dry_run = yes ]; then
    printf '%q ' "$@"
    printf '\n'
  else
    "$@"
  fi
}

# The newest template of that Debian: one that is here, or the one that can be had.
find_template() {
  local here there
  here=$(pveam list "$template_storage" | sed -n "s|^\([^ ]*vztmpl/debian-$debian-standard_[^ ]*\).*|\1|p" | sort -V | tail -1)
  if [ -n "$here" ]; then
    template=$here
    return
  fi
  run pveam update
  there=$(pveam available --section system | sed -n "s|^.* \(debian-$debian-standard_[^ ]*\).*|\1|p" | sort -V | tail -1)
  [ -n "$there" ] || die "there is no Debian $debian template; try: pveam update; pveam available --section system"
  run pveam download "$template_storage" "$there"
  template=$template_storage:vztmpl/$there
}

create() {
  local network="name=eth0,bridge=$bridge,ip=$ip"
  [ -z "$gateway" ] || network+=",gw=$gateway"
  local options=(
    --unprivileged 1 --features "fuse=1,nesting=1" --ostype debian --hostname "$hostname"
    --cores "$cores" --memory "$memory" --swap "$swap" --rootfs "$storage:$disk"
    --net0 "$network" --onboot 1 --timezone host
  )
  [ $tun = no ] || options+=(--dev0 "/dev/net/tun,mode=0666")
  [ -z "$ssh_key" ] || options+=(--ssh-public-keys "$ssh_key")
  run pct create "$id" "$template" "${options[@]}"
}

# Started, and with an address.
boot() {
  run pct start "$id"
  [ $dry_run = no ] || return 0
  local deadline=$((SECONDS + 60))
  until pct exec "$id" -- ip -o route show default 2>/dev/null | grep -q .; do
    [ $SECONDS -lt $deadline ] || die "container $id has no default route after 60 s; check --bridge and --ip, then copy the project yourself"
    sleep 1
  done
}

copy_project() {
  [ $copy = yes ] || return 0
  local project archive
  project=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
  archive=$(mktemp --suffix=.tar.gz)
  run tar -C "$project" --exclude='./.[a-z]*' --exclude=__pycache__ --transform 's|^\.|obsidian-vault-mcp|' -czf "$archive" .
  run pct push "$id" "$archive" /root/obsidian-vault-mcp.tar.gz
  run pct exec "$id" -- tar -C /root -xzf /root/obsidian-vault-mcp.tar.gz
  run pct exec "$id" -- rm /root/obsidian-vault-mcp.tar.gz
  rm -f "$archive"
}

main() {
  parse "$@"
  check
  find_template
  create
  boot
  copy_project
  [ $dry_run = no ] || return 0
  cat <<END

Container $id ($hostname) runs. Next, inside of it:
  pct enter $id
  /root/obsidian-vault-mcp/deploy/lxc/install.sh
END
}

main "$@"

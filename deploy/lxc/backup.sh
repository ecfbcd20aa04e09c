#!/usr/bin/env bash
# What the backup timer runs: one archive more in /var/backups/vault-mcp, the newest KEEP stay.
set -euo pipefail

folder=/var/backups/vault-mcp
keep=${KEEP:-14}

/opt/vault-mcp/current/bin/vault-mcp backup "$folder/state-$(date -u +%Y%m%dT%H%M%SZ).tar.gz"
find "$folder" -maxdepth 1 -name 'state-*.tar.gz' -printf '%f\n' | sort -r | tail -n +$((keep + 1)) |
  while read -r old; do rm -- "$folder/$old"; done

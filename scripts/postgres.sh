#!/usr/bin/env bash
# A private PostgreSQL for the tests: `postgres.sh start FOLDER` prints its URL, `postgres.sh stop FOLDER` ends it.
# It listens on a socket in FOLDER only, so no port is taken and nobody else can reach it.
set -euo pipefail
command=$1 folder=$2
bin=$( (ls -d /usr/lib/postgresql/*/bin 2>/dev/null || dirname "$(command -v pg_ctl)") | sort -V | tail -n 1)

# The server refuses to run as root; the package that brings it makes a user for it.
as_owner() {
  if [ "$(id -u)" = 0 ]; then su postgres -s /bin/bash -c "cd '$folder' && $*"; else (cd "$folder" && eval "$*"); fi
}

case $command in
  start)
    mkdir -p "$folder"
    if [ "$(id -u)" = 0 ]; then chown postgres "$folder"; fi
    if [ ! -d "$folder/data" ]; then
      as_owner "'$bin/initdb' -D '$folder/data' -A trust -U banister -E UTF8 --locale=C" >"$folder.log" 2>&1
    fi
    as_owner "'$bin/pg_ctl' -D '$folder/data' -l '$folder/server.log' -w start -o \"-c listen_addresses='' -k '$folder'\"" \
      >>"$folder.log" 2>&1
    echo "postgresql://banister@/postgres?host=$folder"
    ;;
  stop) as_owner "'$bin/pg_ctl' -D '$folder/data' -m immediate stop" >/dev/null ;;
  *) echo "usage: $0 start|stop FOLDER" >&2; exit 2 ;;
esac

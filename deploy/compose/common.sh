# Shared by the scripts beside it, which source it: finds the testbed and the Compose program.
# shellcheck shell=bash

# Sets `folder` to the testbed: the argument, or COALLOC_TESTBED, or ELGL beside these scripts.
testbed() {
  folder=$(cd -- "${1:-${COALLOC_TESTBED:-$(dirname "${BASH_SOURCE[0]}")}}" >/dev/null && pwd)
  if [ ! -f "$folder/compose.yaml" ]; then
    echo "error: no compose.yaml in $folder; 'coalloc compose --out $folder' writes one" >&2
    exit 2
  fi
}

# `docker compose` is Compose version 2, `docker-compose` is version 1; either will do.
if docker compose version >/dev/null 2>&1; then
  plugin=yes
elif command -v docker-compose >/dev/null; then
  plugin=
else
  echo "error: neither 'docker compose' nor 'docker-compose' is installed" >&2
  exit 2
fi

compose() {
  if [ "$plugin" ]; then
    docker compose -f "$folder/compose.yaml" "$@"
  else
    docker-compose -f "$folder/compose.yaml" "$@"
  fi
}

# Prints an option: from the environment, or from the testbed's .env.
option() {
  printenv "$1" || sed -n "s/^$1=//p" "$folder/.env"
}

# Finds the container of a domain's gate, even while it is paused or stopped.
gate_of() {
  gate=gate-$1
  container=$(compose ps -a -q "$gate" 2>/dev/null) || true
  if [ -z "$container" ]; then
    echo "error: no domain $1 in the testbed $folder, or it is not up" >&2
    exit 2
  fi
  exchange=$(option COMPOSE_PROJECT_NAME)_exchange
}

# Waits until the coordinator reaches every resource manager, or those behind one gate.
reached() {
  local network image lost=unknown
  network=$(option COMPOSE_PROJECT_NAME)_exchange
  image=$(option COALLOC_IMAGE)
  while [ "$SECONDS" -le 120 ]; do
    # Only an operator sees where resource managers are.
    if lost=$(docker run --rm --user 0 --network "$network" --volume "$folder/identities/operator:/operator:ro" \
      --env COALLOC_GRC=grc:7000 --env COALLOC_IDENTITY=/operator "$image" topology 2>&1); then
      if lost=$(grep "${1:-gate-}.*:7[0-9]* " <<<"$lost"); then
        lost=$(grep -v ' reachable$' <<<"$lost") || return 0
      fi
    fi
    sleep 0.2
  done
  printf 'error: the coordinator does not reach everyone:\n%s\n' "$lost" >&2
  exit 1
}

# Shared by the scripts beside it, which source it: the organisations, their folders, and the Compose program.
# shellcheck shell=bash
here=$(cd -- "$(dirname "${BASH_SOURCE[0]}")" >/dev/null && pwd)
# The functions of the other testbed find compose.yaml and .env in `folder`.
folder=$here
# shellcheck source=deploy/compose/common.sh
source "$here/../compose/common.sh"

organisations=(north link grid)
# The daemons of each organisation.
declare -A daemons=([north]="crm-north" [link]="nrm-link" [grid]="crm-grid grc")

# The folder with the organisations' own folders. Each stands for the disks of one organisation.
state=${COALLOC_ORGANISATIONS:-$here/state}
mkdir -p "$state"
# `down` removes what is in it, which must not be anybody else's.
if [ -n "$(ls -A "$state")" ] && [ ! -f "$state/.organisations" ]; then
  echo "error: COALLOC_ORGANISATIONS: $state has other files in it; name a new folder" >&2
  exit 2
fi
touch "$state/.organisations"
state=$(cd -- "$state" >/dev/null && pwd)
export COALLOC_ORGANISATIONS=$state
# Containers run as you do, so that their files are yours.
COALLOC_USER=$(id -u):$(id -g)
export COALLOC_USER
project=$(option COMPOSE_PROJECT_NAME)
image=$(option COALLOC_IMAGE)

# Makes the folders before Docker makes them for root.
for one in "${organisations[@]}"; do
  mkdir -p "$state/exchange/$one.example"
  for daemon in ${daemons[$one]}; do
    mkdir -p "$state/$one/$daemon" "$state/$one/ledgers/$daemon"
  done
done

# Sets `organisation` to the argument.
organisation() {
  organisation=$1
  if [ -z "${daemons[$organisation]:-}" ]; then
    echo "error: '$organisation' is no organisation; there are: ${organisations[*]}" >&2
    exit 2
  fi
}

need_image() {
  if ! docker image inspect "$image" >/dev/null 2>&1; then
    echo "error: there is no image $image; deploy/compose/build makes it" >&2
    exit 2
  fi
}

# Every chore by name. Users need only cargo: see README.

# List the chores.
default:
    @just --list

# Everything CI does, on this machine.
ci:
    bash .ci/run

# The one test command.
test:
    cargo test --workspace

# Format, lints as errors, docs.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# The whole ELGL federation as real processes.
demo *FLAGS:
    cargo run --release -- demo {{FLAGS}}

# Daemons of the previous release together with those of this one.
test-releases:
    COALLOC_PREVIOUS="$(.ci/previous)" cargo test -p coalloc --test federation releases

# Tests of the HiGHS backend (needs cmake, a C++ compiler and libclang).
test-highs:
    cargo test -p coalloc-plan --features highs

# Timetable, planner and ledger figures of this machine.
bench:
    cargo bench -p coalloc-common --bench timetable
    cargo bench -p coalloc-protocol --bench digest
    cargo bench -p coalloc-plan --bench ip
    cargo bench -p coalloc-ledger --bench ledger
    cargo bench -p coalloc-net --bench telemetry

# What years leave behind, and what snapshots cost.
bench-years RESERVATIONS="1000000":
    cargo bench -p coalloc-ledger --bench year -- {{RESERVATIONS}}
    cargo bench -p coalloc-ledger --bench growth

# Co-allocations a second of a whole federation on this machine.
bench-live *FLAGS:
    cargo run --release -- bench {{FLAGS}}

# The planner against HiGHS on the same instances.
bench-highs:
    cargo bench -p coalloc-plan --bench ip --features highs

# More seeds of the protocol's fault runs.
seeds N="20000":
    cargo run --release -- sim fault --seeds {{N}}
    cargo run --release -- sim takeover --seeds {{N}}

# Two Slurm clusters and a shaped link, reserved and used; needs their programs.
equipment:
    cargo run --release -- demo equipment

# The tests of real equipment; they need the users alice and bob.
test-equipment:
    COALLOC_EQUIPMENT=1 cargo test -p coalloc-nrm --test tc
    COALLOC_EQUIPMENT=1 cargo test -p coalloc-crm --test slurm
    COALLOC_EQUIPMENT=1 cargo test -p coalloc --test equipment

# A coordinator whose leader fails so often, under load; needs etcd.
failovers N="200":
    cargo run --release -- demo ha --failures {{N}} --pause 1

# Every world of a small federation, up to more faults than the tests of every day: at most ten minutes.
deep:
    cargo test --release -p coalloc-sim --test explore -- --ignored --nocapture

# Decoders on what nobody would send, SECONDS for each of a dozen targets.
fuzz SECONDS="300":
    COALLOC_FUZZ_SECONDS={{SECONDS}} COALLOC_FUZZ_FIRST=$(date +%s)000000 cargo test --release -p coalloc --test fuzz -- --nocapture

# One of them guided by coverage: `just fuzz-guided holds 300`; names in fuzz/fuzz_targets. Needs cargo-fuzz.
fuzz-guided TARGET SECONDS="300":
    RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none {{TARGET}} -- -max_total_time={{SECONDS}} -timeout=20 -rss_limit_mb=1024 -dict=fuzz/corpus/{{TARGET}}.dict

# Write what is generated anew: stories, sections of docs/PROTOCOL.md, docs/reference and the guide's pictures; read the diff before you commit it.
bless:
    COALLOC_BLESS=1 cargo test -p coalloc --test guide -- reference pictures
    COALLOC_BLESS=1 cargo test -p coalloc-sim --test documents
    COALLOC_BLESS=1 cargo test -p coalloc-sim --features planted --test planted

# Mistakes on purpose: each must be found by the fault runs.
planted:
    cargo test -p coalloc-sim --features planted --test planted -- --nocapture
    cargo test -p coalloc-sim --features planted --test explore -- --nocapture what_is_planted

# The guide as a site, in target/site; needs mdbook.
site:
    docs/site/build

# The Python package: generated files, lints, types, and its tests under three releases of protobuf.
python:
    .ci/python target/debug/coalloc

# The coordinator's page in Debian's chromium: every page for everybody, and what visitors do.
page:
    .ci/page target/debug/coalloc

# Licences, bans and sources of all dependencies.
deny:
    cargo deny check bans licenses sources

# Known vulnerabilities; needs the advisory database.
advisories:
    cargo deny check advisories

# The Debian package of a release build, and with it a reservation in a Debian of its own (needs root, mmdebstrap and cargo-deb).
deb:
    cargo build --release --locked --bin coalloc
    deploy/debian/build
    COALLOC_DEB=1 deploy/debian/test

# The image of the containers, FROM scratch around a static binary.
image:
    deploy/compose/build

# The manifests of `coalloc kubernetes`: their schema, and who may talk to whom. COALLOC_PODMAN=1 runs a federation from them.
kubernetes:
    .ci/kubernetes target/debug/coalloc

# Start, and remove, ELGL as containers (docs/guide/compose.md).
up:
    deploy/compose/up
down:
    deploy/compose/down

# The testbed of containers under faults; needs Docker.
test-compose: image
    COALLOC_COMPOSE=1 cargo test -p coalloc --test compose -- --nocapture

# Real daemons under load, killed and stopped for 1 s to 60 s so often: `just soak 1000 300`; of a tree: `just soak 500 150 1 a_tree`.
soak KILLS='1000' PAUSES='300' SEED='1' SHAPE='one_coordinator':
    COALLOC_KILLS={{KILLS}} COALLOC_PAUSES={{PAUSES}} COALLOC_SEED={{SEED}} cargo test -p coalloc --test blackbox {{SHAPE}} -- --nocapture

# The reports of docs/experiments, with all their seeds: `just experiments`; or with fewer: `just experiments --seeds 5`.
experiments *ARGS:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release
    # A change of the sources does not always change the version: runs of another program must not be gone on with.
    rm -rf target/experiments
    target/release/coalloc sim run --all --out target/experiments {{ARGS}}
    for folder in target/experiments/*/; do
        mkdir -p "docs/experiments/$(basename "$folder")"
        cp "$folder"/{report.md,*.svg} "docs/experiments/$(basename "$folder")/"
    done

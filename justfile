# What people type while working on mala. `just` lists the recipes.

_default:
    @just --list

# Build the program as it is shipped.
build:
    cargo build --profile dist --locked -p mala

# Sizes, names, docs, packages of this checkout or another one; `--build`, `--dist` and `--suite` take long.
measure *what:
    cargo run --quiet --manifest-path tests/measure/Cargo.toml --target-dir target/measure -- {{what}}

# All tests.
test:
    cargo test --workspace

# The tracker `br` for the tests that use the real one; takes a while, once.
br:
    tests/tools/br

# The tests with the real clients, at the newest versions of the registry instead of the pinned ones.
clients-newest *filter:
    MALA_TEST_CLIENTS=newest cargo test -p mala-tests --test behaviour clients:: -- {{filter}}

# What has to pass before a change lands.
ci:
    .ci/run

# Format, and let clippy mend what it can.
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# The table in docs/performance.md.
bench *what:
    cargo bench -p mala-tests --bench speed -- {{what}}

# What `mala exec` costs.
bench-exec:
    cargo bench -p mala-tests --bench enforcement

# What the gate, the test mutex and snapshots cost.
bench-gate:
    cargo bench -p mala-tests --bench gate

# What `mala run` costs beyond its agents.
bench-run:
    cargo bench -p mala-tests --bench run

# How many issues land in a minute, against worktrees with a merge queue; `just bench-landing usual-8` for some rows.
bench-landing *what:
    cargo bench -p mala-tests --bench landing -- {{what}}

# The landing queue against one validation for each entry, and against git; `just bench-queue good` for some rows.
bench-queue *what:
    cargo bench -p mala-tests --bench queue -- {{what}}

# 200 issues, 10 agents, and kills of everything at random.
soak:
    MALA_SOAK=200 cargo test -p mala-tests --test behaviour run::soak -- --nocapture

# Shell commands made up from the manuals, run for real in a scratch repository; the seed is printed and may be given.
fuzz-hooks count="20000" seed=`date +%s`:
    MALA_FUZZ_HOOKS={{count}} MALA_FUZZ_SEED={{seed}} cargo test -p mala-agents --test agents generated -- --nocapture

# How fast the MCP server answers.
bench-mcp:
    cargo bench -p mala-tests --bench mcp

# Install into ~/.cargo/bin, with the manual pages.
install:
    cargo install --path cli --locked --profile dist
    mala man --out ~/.local/share/man/man1

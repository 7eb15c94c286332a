# Sourced by ./demo and ./check: finds the Rust toolchain, or says how to get one.

[ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"

if ! command -v cargo >/dev/null; then
    cat >&2 <<'EOF'
error: divvy needs a Rust toolchain (1.88 or newer), and `cargo` was not found
  hint: install one from https://rustup.rs, open a new shell, and run this again
EOF
    exit 1
fi

oldest=1.88
version=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1)" != "$oldest" ]; then
    echo "error: divvy needs Rust $oldest or newer, this is $version" >&2
    echo "  hint: rustup update stable" >&2
    exit 1
fi

# needs_component NAME PROGRAM: a part of the toolchain that rustup can add.
needs_component() {
    command -v "$2" >/dev/null || rustup component add "$1" || {
        echo "error: $2 is missing and could not be added" >&2
        echo "  hint: rustup component add $1" >&2
        exit 1
    }
}

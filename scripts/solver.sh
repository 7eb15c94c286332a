#!/usr/bin/env bash
# Sourced by ./demo and ./check, or run once before a plain `cargo build`: what the HiGHS solver needs to be built.
#
# HiGHS is C++: it needs a C++ compiler, cmake, and libclang (for its Rust bindings). A machine that has cmake and
# libclang is left as it is. Otherwise both are installed from PyPI into this checkout's .venv, and .cargo/config.toml,
# which git ignores, tells cargo where they are. Nothing is exported, so that cargo sees the same from every shell and
# never builds HiGHS twice.

solver_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
solver_config=$solver_root/.cargo/config.toml

solver_fails() {
    echo "error: $1" >&2
    echo "  hint: $2" >&2
    exit 1
}

machine_has_solver_tools() {
    command -v "${CMAKE:-cmake}" >/dev/null || return 1
    [ -n "${LIBCLANG_PATH:-}" ] || command -v llvm-config >/dev/null ||
        { command -v ldconfig && ldconfig -p | grep 'libclang[-.]'; } >/dev/null
}

install_solver_tools() {
    local venv=$solver_root/.venv
    if [ ! -x "$venv/bin/python" ]; then
        command -v python3 >/dev/null || solver_fails \
            "building the HiGHS solver takes cmake and libclang, and there is no python3 to install them with" \
            "install cmake and libclang with your package manager, or install python3, and run this again"
        python3 -m venv "$venv" || solver_fails \
            "python3 could not make a virtual environment in $venv" \
            "on Debian and Ubuntu: apt install python3-venv"
    fi
    if ! [ -x "$venv/bin/cmake" ] || ! ls "$venv"/lib/python*/site-packages/clang/native/libclang.* >/dev/null 2>&1; then
        echo "Installing cmake and libclang into .venv, to build the HiGHS solver ..." >&2
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check cmake==4.4.4 libclang==18.1.1 ||
            solver_fails "cmake and libclang could not be installed into $venv" \
                "look at pip's message above, or install cmake and libclang with your package manager"
    fi
    local native
    native=$(cd "$venv" && ls -d lib/python*/site-packages/clang/native | head -n 1)
    local wanted="# Written by scripts/solver.sh: where the tools are that build the HiGHS solver.
[env]
CMAKE = { value = \".venv/bin/cmake\", relative = true }
LIBCLANG_PATH = { value = \".venv/$native\", relative = true }"
    [ -f "$solver_config" ] && [ "$(cat "$solver_config")" = "$wanted" ] && return
    if [ -f "$solver_config" ] && ! grep -q 'Written by scripts/solver.sh' "$solver_config"; then
        grep -q LIBCLANG_PATH "$solver_config" && return
        solver_fails "$solver_config is your own, and does not say where cmake and libclang are" \
            "add these lines to it: $wanted"
    fi
    mkdir -p "$(dirname "$solver_config")"
    echo "$wanted" >"$solver_config"
}

# Says now and then how far the build of HiGHS has come, as long as this shell lives. Cargo itself is silent meanwhile.
watch_solver() {
    local shell=$$ target=${CARGO_TARGET_DIR:-$solver_root/target} seconds=0 build all now before=
    while sleep 1 && kill -0 "$shell" 2>/dev/null; do
        ((++seconds % 30)) && continue
        for build in "$target"/*/build/highs-sys-*/out/build; do
            # Cargo writes `output` beside `out` when the build has ended.
            [ -d "$build" ] && [ ! -e "$build/../../output" ] || continue
            all=$(grep -rhoE '^[^ ]+\.o:' --include=build.make "$build" | sort -u | wc -l)
            now=$(find "$build" -name '*.o' | wc -l)
            [ "$now" = "$before" ] || echo "  the HiGHS solver: $now of $all files compiled" >&2
            before=$now
        done
    done &
}

command -v "${CXX:-c++}" >/dev/null || solver_fails "building the HiGHS solver takes a C++ compiler" \
    "on Debian and Ubuntu: apt install g++"
machine_has_solver_tools || install_solver_tools

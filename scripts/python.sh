# Sourced by ./check, in the root of the checkout: sets `python` to one that has the packages of scripts/requirements.txt.
# They are installed into .venv the first time, and again when the list changes.

python=$PWD/.venv/bin/python
installed=.venv/installed-requirements.txt

if ! cmp -s scripts/requirements.txt "$installed" || ! "$python" -c '' 2>/dev/null; then
    if ! command -v python3 >/dev/null; then
        echo "error: the ONNX checks need Python 3.11 or newer, and \`python3\` was not found" >&2
        echo "  hint: install it with your system's packages, then run this again" >&2
        exit 1
    fi
    if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "error: the ONNX checks need Python 3.11 or newer, this is $(python3 --version | cut -d' ' -f2)" >&2
        echo "  hint: install a newer one and put it first on the PATH as \`python3\`" >&2
        exit 1
    fi
    echo "Installing onnx, ONNX Runtime and readers of other formats into .venv (once) ..."
    # Other scripts install into .venv too, so one that works is kept.
    if ! "$python" -c '' 2>/dev/null && ! python3 -m venv --clear .venv; then
        echo "error: python3 cannot make a virtual environment" >&2
        echo "  hint: install its \`venv\` package (Debian and Ubuntu: apt install python3-venv)" >&2
        exit 1
    fi
    if ! "$python" -m pip install --quiet --disable-pip-version-check --no-deps -r scripts/requirements.txt; then
        echo "error: the packages of scripts/requirements.txt could not be installed" >&2
        echo "  hint: this needs the network, once; look at what pip says above, then run this again" >&2
        exit 1
    fi
    cp scripts/requirements.txt "$installed"
fi

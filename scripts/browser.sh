# Sourced by ./check: sets `browser` to a Chromium or Chrome that can run without a screen, or to nothing if there is none.
# One that is installed is used as it is (DIVVY_BROWSER names another); else Debian's or Ubuntu's package is installed.

browser=${DIVVY_BROWSER:-}

find_browser() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
        if command -v "$name" >/dev/null && "$name" --version >/dev/null 2>&1; then
            browser=$(command -v "$name")
            return 0
        fi
    done
    return 1
}

if [ -z "$browser" ] && ! find_browser; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing Chromium with apt-get, to test reports in (once) ..."
        apt-get update -qq >/dev/null 2>&1 || true
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null || true
    fi
    find_browser || true
fi

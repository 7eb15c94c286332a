#!/usr/bin/env python3
"""Tests that need what a machine may not have: they say so, ./check lists them at its end, and under CI=true they fail.

    skipped.py TEST REASON

`testing/src/skipped.rs` does the same in Rust.
"""

import os
import sys


def skip(test, reason):
    """Says that a test is skipped; the caller leaves it out then."""
    line = f"skipped: {test}: {reason}"
    if os.environ.get("CI") == "true":
        sys.exit(f"{line} (under CI=true nothing may be)")
    print(line, flush=True)
    if collected := os.environ.get("DIVVY_SKIPPED"):
        with open(collected, "a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    skip(*sys.argv[1:])

#!/bin/sh
# Regenerates the pictures and the recording of the README: assets/*.svg and assets/demo.cast. The program
# itself exports them from a pseudo-terminal; see tests/program/pictures.rs.
#
#     ./assets/pictures.sh            all of them, in about two minutes
#     ./assets/pictures.sh demo       those whose test has this in its name
set -eu
cd "$(dirname "$0")/.."
exec cargo test --locked --test program -- --ignored --nocapture --test-threads=1 "${1:-pictures::}"

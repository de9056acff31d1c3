#!/usr/bin/env bash
# Installs the coding agents that tests/e2e/agents_test.py runs (half a gigabyte); does nothing where they are there.
set -euo pipefail
cd "$(dirname "$0")/../tests/agents"

if [[ -d node_modules && ! package-lock.json -nt node_modules/.package-lock.json ]]; then exit; fi
# The lock has the versions; `npm ci` of npm 11 misses the optional packages of other systems in it.
npm install --no-save --no-audit --no-fund --loglevel=error

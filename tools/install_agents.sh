#!/usr/bin/env bash
# Installs the coding agents for tests/e2e/agents_test.py (half a gigabyte). Does nothing if they are installed.
set -euo pipefail
cd "$(dirname "$0")/../tests/agents"

if [[ -d node_modules && ! package-lock.json -nt node_modules/.package-lock.json ]]; then exit; fi
# The lock file has the versions. `npm ci` of npm 11 fails because the lock file lacks optional packages of other systems.
npm install --no-save --no-audit --no-fund --loglevel=error

#!/usr/bin/env bash
# Installs the official clients for tests/e2e/clients_test.py. Does nothing if they are installed.
set -euo pipefail
cd "$(dirname "$0")/../tests/clients"

if [[ -d node_modules && ! package-lock.json -nt node_modules/.package-lock.json ]]; then exit; fi
npm ci --no-audit --no-fund --loglevel=error

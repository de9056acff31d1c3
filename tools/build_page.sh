#!/usr/bin/env bash
# Builds the page into web/dist, where CMake finds it. Does nothing if web/dist is newer than the sources.
set -euo pipefail
cd "$(dirname "$0")/../web"

if [[ -f dist/explain.html && -d node_modules ]]; then
  newer=$(find src index.html explain.html inline.mjs package-lock.json tsconfig.json vite.config.ts -newer dist/explain.html -print -quit)
  if [[ -z $newer ]]; then exit; fi
fi
if [[ ! -d node_modules || package-lock.json -nt node_modules/.package-lock.json ]]; then
  npm ci --no-audit --no-fund --loglevel=error
fi
npm run --silent build

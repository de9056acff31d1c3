#!/usr/bin/env bash
# Makes the README's screenshots of the page, docs/page-light.png and docs/page-dark.png: build/kvik serves the embedded model, and a real
# browser opens the page.
set -euo pipefail
cd "$(dirname "$0")/.."

port=${1:-8790}
build/kvik serve demo --port "$port" --threads 1 --kv-memory 12MiB 2>/dev/null &
server=$!
trap 'kill "$server"' EXIT
for _ in {1..100}; do
  if curl -fs "http://127.0.0.1:$port/readyz" >/dev/null; then break; fi
  sleep 0.1
done
KVIK_SCREENSHOTS=$PWD/docs node web/test/page.mjs portrait "http://127.0.0.1:$port/" >/dev/null
ls -l docs/page-light.png docs/page-dark.png

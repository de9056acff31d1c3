import { defineConfig } from "vite";

// One script and one style sheet; inline.mjs puts both into the page.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    rollupOptions: { output: { inlineDynamicImports: true } },
  },
  // `npx vite` beside a server that runs: ./run --port 8080
  server: { proxy: { "/v1": "http://127.0.0.1:8080", "/kvik": "http://127.0.0.1:8080" } },
});

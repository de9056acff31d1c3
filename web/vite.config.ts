import { defineConfig } from "vite";

// One script and one style sheet for each page; inline.mjs embeds both. --mode is the page: index or explain.
export default defineConfig(({ mode, command }) => ({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    emptyOutDir: mode === "index",
    rollupOptions: { input: command === "build" ? `${mode}.html` : undefined, output: { inlineDynamicImports: true } },
  },
  // `npx vite` uses a running server: ./run --port 8080
  server: { proxy: { "/v1": "http://127.0.0.1:8080", "/kvik": "http://127.0.0.1:8080", "/api": "http://127.0.0.1:8080" } },
}));

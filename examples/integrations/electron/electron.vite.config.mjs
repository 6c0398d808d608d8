import { defineConfig } from 'electron-vite'

// electron-vite leaves the `dependencies` of package.json outside the bundles, so that ztensor stays in node_modules.
const input = { index: 'src/main/index.js', model: 'src/main/model.js' }
export default defineConfig({ main: { build: { rollupOptions: { input } } }, preload: {}, renderer: {} })

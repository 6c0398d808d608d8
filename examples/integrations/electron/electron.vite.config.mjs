import { defineConfig } from 'electron-vite'

// electron-vite leaves the `dependencies` of package.json outside the bundles, so that ztensor stays in node_modules.
export default defineConfig({ main: {}, preload: {}, renderer: {} })

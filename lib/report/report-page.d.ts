// What `npm run build` bundles `view/` into: dist/report-page.js.

/** The script of the page. */
export declare const SCRIPT: string
/** Its style sheet. */
export declare const STYLE: string

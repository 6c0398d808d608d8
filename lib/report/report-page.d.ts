// Types of dist/report-page.js, the bundle of `view/` that `npm run build` makes.

/** The script of the page. */
export declare const SCRIPT: string
/** The style sheet of the page. */
export declare const STYLE: string

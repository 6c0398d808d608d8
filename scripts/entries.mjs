/** The modules that a program can import: `ztensor`, `ztensor/hub`, `ztensor/jobs` and `ztensor/report`. Each has a source, `<name>.ts`, and types. */
export const ENTRIES = ['index', 'hub', 'jobs', 'report']

/** The files of types of all entries. */
export const TYPES = ENTRIES.flatMap((entry) => [`${entry}.d.mts`, `${entry}.d.ts`])

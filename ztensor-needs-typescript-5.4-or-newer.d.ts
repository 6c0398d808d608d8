// TypeScript before 5.4 reads this file in place of index.d.ts, parts of which it would take for `any` without a word. It is no
// module, so that every import of ztensor is an error that shows the name of this file: install TypeScript 5.4 or newer.

// The fenced blocks of the README and of the guides, for the tests that compile and run them.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The README and the guides, as paths from the root of the repository. */
export const pages = ['README.md', ...readdirSync(join(root, 'docs/guide')).map((name) => `docs/guide/${name}`)]

/** The fenced blocks of a page, in order: `{ number, language, text }`. The first block has number 1. */
export function blocksOf(page) {
  const fences = /^```(\w+)\n([\s\S]*?)^```$/gm
  return [...readFileSync(join(root, page), 'utf8').matchAll(fences)].map(([, language, text], index) => {
    return { number: index + 1, language, text }
  })
}

/** The packages that a program imports, except ztensor and Node's own. */
export function packagesOf(text) {
  const names = [...text.matchAll(/(?:from|import) '([^']+)'/g)].map(([, name]) => name)
  return names.filter((name) => !/^(ztensor$|ztensor\/|node:|\.)/.test(name))
}

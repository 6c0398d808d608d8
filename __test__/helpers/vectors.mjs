// The vectors of fixtures/: each file, and its contents by the sidecar.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const directory = new URL('../fixtures/', import.meta.url)

export const fixturePath = (name) => fileURLToPath(new URL(name, directory))

/** [{ name, path, bytes, meaning }] of every vector, in order of name. */
export const vectors = readdirSync(directory)
  .filter((name) => /\.(zt|btf|safetensors)$/.test(name))
  .sort()
  .map((name) => ({
    name,
    path: fixturePath(name),
    bytes: readFileSync(fixturePath(name)),
    meaning: JSON.parse(readFileSync(fixturePath(`${name}.json`), 'utf8')),
  }))

/** The vector of that name. */
export function vector(name) {
  const found = vectors.find((candidate) => candidate.name === name)
  if (found === undefined) throw new Error(`no such vector: ${name}`)
  return found
}

// The tables of cases, for users of the files without the tests.
import { readdirSync } from 'node:fs'

/** The file of a case. */
export const bytesOf = ({ bytes }) => (typeof bytes === 'function' ? bytes() : bytes)

/** All tables, by the part of the name after `cases-`. */
export async function tables() {
  const names = readdirSync(new URL('.', import.meta.url)).filter((name) => name.startsWith('cases-'))
  const loaded = names.map(async (name) => [name.slice(6, -4), (await import(`./${name}`)).cases])
  return new Map(await Promise.all(loaded))
}

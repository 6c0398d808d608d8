// Each format of the table has everything that a format needs: malformed files, mutations, a fuzz target, and a mention in the pages that users read first.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import test from 'ava'
import { openSync } from 'ztensor'
import { source } from '../../scripts/source.mjs'
import { tables } from '../corpus/tables.mjs'
import { MUTATED } from '../helpers/mutated-files.mjs'

const { FORMATS } = await source('lib/values/format-table.ts')
const root = new URL('../../', import.meta.url)
const read = (path) => readFileSync(new URL(path, root), 'utf8')
const folder = (path) => readdirSync(new URL(path, root))

/** Tables of malformed files that formats share. */
const SHARED_TABLES = { npy: 'numpy', npz: 'numpy' }
/** A table or fuzz target of `zt` may be that of one version: `zt12`, `zt-sparse`. */
const isOf = (format) => (name) => name === format || (format === 'zt' && /^zt(\d|-)/.test(name))

const corpora = await tables()
const targets = folder('fuzz/fuzz_targets').map((file) => file.replace(/\.rs$/, ''))
const campaigns = read('.github/workflows/campaigns.yml')
const cargo = read('fuzz/Cargo.toml')
const overview = read('docs/formats.md')
const writing = read('docs/guide/write.md')
const headings = folder('docs/formats').map((name) => read(`docs/formats/${name}`).split('\n', 1)[0])
const fixtures = folder('__test__/fixtures')
const rows = read('README.md').match(/^\| .* \|$/gm)
const manifest = JSON.parse(read('package.json'))

/** Lists what is missing for a format of the table. */
function missingFor({ name, title, endings: [ending], writes }) {
  // `NumPy npy` is one of NumPy's.
  const [family] = title.split(' ')
  const shared = SHARED_TABLES[name] ?? name
  const own = [...corpora.keys()].filter(isOf(shared))
  const files = Object.values(MUTATED[name] ?? {}).flat()
  const formatOf = (path) => {
    const file = openSync(path, path.endsWith('.gguf') ? { shards: 'none' } : {})
    file.close()
    return file.format
  }
  const fuzzed = targets.filter(isOf(name))
  const isWritten = writes.length > 0
  const wanted = {
    'malformed files: __test__/corpus/cases-*.mjs': own.length > 0 && own.every((one) => corpora.get(one).length > 5),
    'files to mutate: __test__/helpers/mutated-files.mjs':
      files.length > 0 && files.every((path) => existsSync(path) && formatOf(path) === name),
    'files by a real writer: __test__/fixtures': fixtures.some(
      (path) => path === shared || path.endsWith(`.${ending}`),
    ),
    'a fuzz target: fuzz/fuzz_targets': fuzzed.length > 0,
    'its fuzz target in fuzz/Cargo.toml': fuzzed.every((one) => cargo.includes(`name = "${one}"`)),
    'a campaign of its fuzz target': fuzzed.every((one) => new RegExp(`\\b${one}\\b`).test(campaigns)),
    'a row in the table of docs/formats.md': overview
      .split('\n')
      .some((row) => row.startsWith('| ') && row.includes(family)),
    'yes in the column write of docs/formats.md, if it is written':
      !isWritten || overview.split('\n').some((row) => row.includes(family) && /^\|.*\| yes \| yes \|/.test(row)),
    'a page in docs/formats': headings.some((text) => text.includes(family)),
    'a row in README.md': rows.some((row) => row.includes(family)),
    'its name in bold in README.md, if it is written': !isWritten || rows.some((row) => row.includes(`**${family}**`)),
    'its extension in docs/guide/write.md, if it is written': !isWritten || writing.includes(`\`.${ending}\``),
    'its name in the description of package.json': manifest.description.includes(family),
    'its keyword in package.json': manifest.keywords.includes(family.toLowerCase()),
  }
  return Object.keys(wanted).filter((what) => !wanted[what])
}

for (const format of FORMATS) {
  test(`${format.name} has everything that a format needs`, (t) => t.deepEqual(missingFor(format), []))
}

test('reports everything as missing for an empty format', (t) => {
  t.deepEqual(missingFor({ name: 'made_up', title: 'Made-up', endings: ['mu'], writes: [{}] }), [
    'malformed files: __test__/corpus/cases-*.mjs',
    'files to mutate: __test__/helpers/mutated-files.mjs',
    'files by a real writer: __test__/fixtures',
    'a fuzz target: fuzz/fuzz_targets',
    'a row in the table of docs/formats.md',
    'yes in the column write of docs/formats.md, if it is written',
    'a page in docs/formats',
    'a row in README.md',
    'its name in bold in README.md, if it is written',
    'its extension in docs/guide/write.md, if it is written',
    'its name in the description of package.json',
    'its keyword in package.json',
  ])
})

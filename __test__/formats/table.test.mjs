// One table of formats: the wrapper's copy, the public types and the command's help equal the addon's.
import test from 'ava'
import { source } from '../../scripts/source.mjs'
import { binding } from '../helpers/binding.mjs'
import { run } from '../helpers/command.mjs'
import { surface } from '../helpers/surface.mjs'

const { FORMATS } = await source('lib/values/format-table.ts')

const formats = binding.formats()
const writable = formats.filter(({ writes }) => writes.length > 0)
const versions = writable.flatMap(({ writes }) => writes).flatMap(({ version }) => version ?? [])
const plain = (value) => JSON.parse(JSON.stringify(value))

test("the wrapper's table equals the addon's (`npm run formats` writes it)", (t) => {
  t.true(formats.length >= 3)
  t.deepEqual(plain(FORMATS), plain(formats))
})

test('the public types are literal unions of the same names', (t) => {
  const { Format, WritableFormat, WritableVersion } = surface.literals
  t.deepEqual([...Format].sort(), formats.map(({ name }) => name).sort())
  t.deepEqual([...WritableFormat].sort(), writable.map(({ name }) => name).sort())
  t.deepEqual([...WritableVersion].sort(), [...versions].sort())
})

test("the command's help names every format and version", async (t) => {
  const general = (await run(['--help'])).stdout.replaceAll(/\s+/g, ' ')
  t.true(general.includes(formats.map(({ title }) => title).join(', ')), general)
  const { stdout } = await run(['convert', '--help'])
  const help = stdout.replaceAll(/\s+/g, ' ')
  const choices = (names) => names.map((name) => `"${name}"`).join(', ')
  t.true(help.includes(`the format to write (choices: ${choices(writable.map(({ name }) => name))})`), help)
  t.true(help.includes(`read the source as this format (choices: ${choices(formats.map(({ name }) => name))})`), help)
  t.true(help.includes(`(choices: ${choices(versions)})`), help)
})

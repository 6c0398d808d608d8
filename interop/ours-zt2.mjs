// Version 2 in every form that we write: canonical, loose, compressed, in shards, in several generations. The peer makes the same
// canonical file of each form.
import { join } from 'node:path'
import { append, compact, create } from 'ztensor'
import { DTYPES } from '../__test__/helpers/sample-files.mjs'

const FORMS = {
  canonical: {},
  loose: { canonical: false, alignment: 4096, digest: 'sha256' },
  zstd: { canonical: false, compression: { frameSize: 4096, minSavings: 0 } },
  shards: { maxShardBytes: 2 ** 20 },
}
/** Half of the tensors are added to a file of the other half. */
const GENERATIONS = {
  clone: { options: { canonical: false, alignment: 4096 } },
  'in-place': { options: {}, inPlace: true },
  compacted: { options: {}, inPlace: true, compacted: true },
  zstd: { options: FORMS.zstd, stored: { digest: 'sha256', compression: { frameSize: 4096, minSavings: 0 } } },
  shards: { options: FORMS.shards },
}

async function appended(path, tensors, { options, stored, inPlace = false, compacted = false }) {
  const half = Math.ceil(tensors.length / 2)
  const writer = await create(path, { version: '2', ...options, metadata: { made: 'by them', gone: 1 } })
  for (const { add } of tensors.slice(0, half)) await add(writer)
  await writer.add('gone', Int8Array.of(1))
  await writer.finish()
  const editor = await append(path, { inPlace, ...stored })
  await editor.remove('gone')
  await editor.setMetadata({ made: 'by us', gone: undefined })
  for (const { add } of tensors.slice(half)) await add(editor)
  await editor.finish()
  if (compacted) await compact(path)
}
const dtypes = Object.keys(DTYPES).filter((dtype) => !dtype.startsWith('float6'))
/** Packed values are in dense tensors only. */
const formatOf = (kind) => ({
  name: '2',
  dtypes: kind === 'dense' ? dtypes : dtypes.filter((dtype) => DTYPES[dtype][1] >= 8),
})
// Version 2 has no tensor without a name.
const isNamed = ({ expected }) => expected.name !== ''

/** Writes the tensors of each kind into the directory in each form. Returns the rows for ours.json. */
export async function writeZt2(directory, kinds) {
  const files = []
  for (const [kind, tensorsOf] of Object.entries(kinds)) {
    const tensors = tensorsOf(formatOf(kind)).filter(isNamed)
    for (const [form, options] of Object.entries(FORMS)) {
      const file = `2-${kind}-${form}.zt`
      const writer = await create(join(directory, file), { version: '2', ...options, metadata: { made: 'by us' } })
      for (const { add } of tensors) await add(writer)
      await writer.finish()
      const canonical = `2-${kind}-canonical.zt`
      files.push({ file, format: '2', canonical, tensors: tensors.map(({ expected }) => expected) })
    }
    for (const [form, how] of Object.entries(GENERATIONS)) {
      const file = `2-${kind}-appended-${form}.zt`
      await appended(join(directory, file), tensors, how)
      const canonical = `2-${kind}-canonical.zt`
      files.push({ file, format: '2', canonical, tensors: tensors.map(({ expected }) => expected) })
    }
  }
  return files
}

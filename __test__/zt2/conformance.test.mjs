// Files that zTensor 2 (Draft 4) and its profiles accept and reject, and the section that each rejection names.
import test from 'ava'
import { cases as container } from '../corpus/cases-zt2-container.mjs'
import { cases as layouts } from '../corpus/cases-zt2-layouts.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ 'zt 2 container': container, 'zt 2 layouts': layouts })

test('a case breaks each section that a reader checks', (t) => {
  const cases = [...container, ...layouts]
  const broken = cases.flatMap((one) => [one.error?.rule, ...(one.uses ?? []).map((use) => use.error?.rule)])
  const sections = broken.map((rule) => /^zTensor 2 (§[\d.]+|Appendix A)|^(\S+\/1)/.exec(rule)?.slice(1).find(Boolean))
  t.deepEqual([...new Set(sections.filter(Boolean))].sort(), [
    'Appendix A',
    'gguf.<type>/1',
    'zt.mx/1',
    'zt.quant_group/1',
    'zt.sparse_coo/1',
    'zt.sparse_csr/1',
    'zt.zstd-seekable/1',
    '§2.1',
    '§2.2',
    '§2.3',
    '§2.4',
    '§3.1',
    '§3.2',
    '§3.3',
    '§3.4',
    '§3.5',
    '§4.1',
    '§4.2',
    '§5.1',
    '§5.2',
    '§7.1',
    '§7.2',
  ])
})

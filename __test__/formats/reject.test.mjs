// The tables of malformed and odd files of every format that other projects define. hostile/reject and zt2/conformance run the others.
import { testCorpora } from '../corpus/run.mjs'
import { tables } from '../corpus/tables.mjs'

const ELSEWHERE = /^(?:zt[012]|zt-|safetensors$|btf$)/
const all = [...(await tables())].filter(([name]) => !ELSEWHERE.test(name))
testCorpora(Object.fromEntries(all))

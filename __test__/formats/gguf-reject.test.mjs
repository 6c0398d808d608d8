// The table of malformed GGUF files.
import { cases } from '../corpus/cases-gguf.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ GGUF: cases })

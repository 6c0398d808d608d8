// The table of malformed and odd checkpoints of Flax.
import { cases } from '../corpus/cases-flax.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ flax: cases })

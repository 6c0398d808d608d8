// The table of malformed Arrow files and streams.
import { cases } from '../corpus/cases-arrow.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ arrow: cases })

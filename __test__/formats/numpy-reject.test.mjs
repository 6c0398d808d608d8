// The table of malformed and odd NumPy files.
import { cases } from '../corpus/cases-numpy.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ numpy: cases })

// The table of malformed Keras files.
import { cases } from '../corpus/cases-keras.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ Keras: cases })

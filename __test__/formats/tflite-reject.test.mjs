// The table of malformed TFLite models.
import { cases } from '../corpus/cases-tflite.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ tflite: cases })

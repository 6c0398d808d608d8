// The table of malformed and odd indexes of TensorFlow checkpoints.
import { cases } from '../corpus/cases-tensorflow.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ tensorflow: cases })

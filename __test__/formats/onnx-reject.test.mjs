// The table of malformed and odd ONNX models.
import { cases } from '../corpus/cases-onnx.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ onnx: cases })

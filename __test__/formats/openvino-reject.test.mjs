// The table of malformed models of OpenVINO.
import { cases } from '../corpus/cases-openvino.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ openvino: cases })

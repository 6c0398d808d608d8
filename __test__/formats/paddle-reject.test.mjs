// The table of malformed and odd files of PaddlePaddle.
import { cases } from '../corpus/cases-paddle.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ paddle: cases })

// The table of malformed and odd checkpoints of PyTorch.
import { cases } from '../corpus/cases-pytorch.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ pytorch: cases })

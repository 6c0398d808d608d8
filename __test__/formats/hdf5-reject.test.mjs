// The table of malformed and odd HDF5 files.
import { cases } from '../corpus/cases-hdf5.mjs'
import { testCorpora } from '../corpus/run.mjs'

testCorpora({ HDF5: cases })

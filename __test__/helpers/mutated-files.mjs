// The files that mutation tests damage, by format: { format: { kind: paths } }. Each kind is damaged in a separate process.
import { readdirSync } from 'node:fs'
import { fixturePath, vectors } from './vectors.mjs'

const LARGEST = 256 * 1024
const inFolder =
  (folder, ending = '') =>
  (...names) =>
    names.map((name) => fixturePath(`${folder}/${name}${ending}`))
/** Files of one folder, each a separate kind. */
const each = (folder, ending, ...names) =>
  Object.fromEntries(names.map((name) => [name, inFolder(folder, ending)(name)]))
/** Vectors whose names start with this prefix and a version. */
const ofVectors = (pattern) =>
  vectors.filter(({ name, bytes }) => pattern.test(name) && bytes.length <= LARGEST).map(({ path }) => path)

const numpy = inFolder('numpy')
const pytorch = inFolder('pytorch')
const hdf5 = inFolder('hdf5')
const flax = inFolder('flax', '.msgpack')
const paddle = inFolder('paddle')
const ggufs = readdirSync(fixturePath('gguf')).filter((name) => name.endsWith('.gguf') && name !== 'types.gguf')

export const MUTATED = {
  zt: {
    'zTensor 0.1': ofVectors(/^zt01/),
    'zTensor 1.0': ofVectors(/^zt10/),
    'zTensor 1.1': ofVectors(/^zt11/),
    'zTensor 1.2': ofVectors(/^zt12/),
    'zTensor 2': ofVectors(/^zt2/),
  },
  safetensors: { safetensors: ofVectors(/^st/) },
  btf: { BTF: ofVectors(/^btf/) },
  npy: {
    npy: numpy('c-order.npy', 'fortran-big.npy', 'version-2.npy', 'version-3.npy', 'structured.npy', 'scalar.npy'),
  },
  npz: {
    'npz, stored': numpy('shapes.npz', 'others.npz', 'csr.npz', 'bsr.npz'),
    'npz, deflated': numpy('csc-deflated.npz', 'coo-3d.npz', 'coo-deflated.npz'),
    'npz, with data descriptors': numpy('pipe-deflated.npz'),
  },
  gguf: { GGUF: inFolder('gguf')(...ggufs) },
  onnx: each('onnx', '.onnx', 'types-raw', 'types-typed', 'graph'),
  pytorch: {
    archive: pytorch('views.pt', 'layouts.pt', 'tied.pt'),
    'NumPy arrays inside': pytorch('numpy2.pt', 'numpy5.pt'),
    legacy: pytorch('legacy.pt'),
  },
  hdf5: {
    'HDF5, superblock 0': hdf5('small.h5'),
    'HDF5, superblock 3': hdf5('small-latest.h5', 'fill-latest.h5'),
  },
  keras: { Keras: hdf5('tiny.keras') },
  tensorflow: each('tensorflow', '.index', 'manager/ckpt-1', 'partitioned/model-12', 'sharded/model'),
  flax: { values: flax('values', 'dtypes'), chunks: flax('chunks', 'alone-chunked', 'alone') },
  paddle: {
    pickles: paddle('nested.pdparams', 'arrays.pdparams', 'eval.pdparams'),
    'parameters in one file': paddle('unnamed.pdiparams'),
  },
  arrow: each('arrow', '.arrow', 'tensors', 'sparse', 'nulls-batches', 'nulls-lists'),
  tflite: each('tflite', '.tflite', 'plain', 'behind', 'sparse'),
  openvino: each('openvino', '.xml', 'network', 'bodies', 'half'),
}

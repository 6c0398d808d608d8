// The addon's table of formats (src/formats.rs), by `npm run formats`. Not edited by hand.
import type { FormatInfo } from './formats.js'

/** The containers that files come in. */
export type Format =
  | 'zt'
  | 'safetensors'
  | 'btf'
  | 'gguf'
  | 'npy'
  | 'npz'
  | 'onnx'
  | 'pytorch'
  | 'hdf5'
  | 'keras'
  | 'tensorflow'
  | 'flax'
  | 'paddle'
  | 'arrow'
  | 'tflite'
  | 'openvino'

/** Those that can be written. */
export type WritableFormat = 'zt' | 'safetensors' | 'btf' | 'gguf' | 'npy' | 'npz'

/** The versions that can be written. */
export type WritableVersion = '0.1' | '1.0' | '1.2' | '2'

export const FORMATS: readonly FormatInfo[] = [
  {
    name: 'zt',
    title: 'zTensor',
    endings: ['zt'],
    writes: [
      {
        id: '0.1',
        isDefault: false,
        title: 'zTensor 0.1',
        readers: ['ztensor for Python 0.1.x', 'ztensor'],
        digests: ['crc32c', 'sha256'],
        attributes: 'none',
        typedAttributes: false,
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        models: false,
        checkpoints: [],
        generator: false,
        padsPacked: false,
        version: '0.1',
        alignment: { min: 64, default: 64, powersOfTwo: true },
        compression: 'zstd',
      },
      {
        id: '1.0',
        isDefault: true,
        title: 'zTensor 1.0',
        readers: ['ztensor for Python 1.0.0 and 1.0.1', 'ztensor'],
        digests: ['crc32c', 'sha256'],
        attributes: 'any',
        typedAttributes: false,
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        models: false,
        checkpoints: [],
        generator: true,
        padsPacked: false,
        version: '1.0',
        alignment: { min: 64, default: 64, powersOfTwo: true },
        compression: 'zstd',
      },
      {
        id: '1.2',
        isDefault: false,
        title: 'zTensor 1.2',
        readers: ['ztensor for Python 1.0.2 to 1.2.3', 'ztensor'],
        digests: ['crc32c', 'sha256'],
        attributes: 'any',
        typedAttributes: false,
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        models: false,
        checkpoints: [],
        generator: false,
        padsPacked: false,
        version: '1.2',
        alignment: { min: 64, default: 64, powersOfTwo: true },
        compression: 'zstd',
      },
      {
        id: '2',
        isDefault: false,
        title: 'zTensor 2',
        readers: ['ztensor for Python 2.x', 'ztensor'],
        digests: ['xxh3', 'sha256'],
        attributes: 'any',
        typedAttributes: false,
        numbered: false,
        canonical: true,
        contentDigest: true,
        shards: 'root',
        models: false,
        checkpoints: [],
        generator: false,
        padsPacked: true,
        version: '2',
        alignment: { min: 4096, default: 65536, powersOfTwo: false },
        compression: 'zstd-seekable',
      },
    ],
  },
  {
    name: 'safetensors',
    title: 'safetensors',
    endings: ['safetensors'],
    writes: [
      {
        id: 'safetensors',
        isDefault: true,
        title: 'safetensors',
        readers: ['safetensors for Python', 'every other reader of safetensors', 'ztensor'],
        digests: [],
        attributes: 'text',
        typedAttributes: false,
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'index',
        models: false,
        checkpoints: [],
        generator: false,
        padsPacked: false,
      },
    ],
  },
  {
    name: 'btf',
    title: 'BTF',
    endings: ['btf'],
    writes: [
      {
        id: 'btf',
        isDefault: true,
        title: 'BTF',
        readers: ['readers of BTF', 'ztensor'],
        digests: [],
        attributes: 'none',
        typedAttributes: false,
        numbered: true,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        models: false,
        checkpoints: [],
        generator: false,
        padsPacked: false,
      },
    ],
  },
  {
    name: 'gguf',
    title: 'GGUF',
    endings: ['gguf'],
    writes: [
      {
        id: 'gguf',
        isDefault: true,
        title: 'GGUF',
        readers: ['llama.cpp', 'gguf for Python', 'ztensor'],
        digests: [],
        attributes: 'any',
        typedAttributes: true,
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'numbers',
        models: true,
        checkpoints: ['safetensors', 'pytorch'],
        generator: false,
        padsPacked: false,
        alignment: { min: 8, default: 32, powersOfTwo: true, attribute: 'general.alignment' },
        facts: [
          { title: 'model', key: 'general.name' },
          { title: 'arch', key: 'general.architecture' },
          { title: 'context', key: '{}.context_length' },
          { title: 'template', key: 'tokenizer.chat_template' },
        ],
      },
    ],
  },
  {
    name: 'npy',
    title: 'NumPy npy',
    endings: ['npy'],
    writes: [
      {
        id: 'npy',
        isDefault: true,
        title: 'NumPy npy',
        readers: ['numpy.load', 'ztensor'],
        digests: [],
        attributes: 'none',
        typedAttributes: false,
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        models: false,
        checkpoints: [],
        generator: false,
        padsPacked: false,
      },
    ],
  },
  {
    name: 'npz',
    title: 'NumPy npz',
    endings: ['npz'],
    writes: [
      {
        id: 'npz',
        isDefault: true,
        title: 'NumPy npz',
        readers: ['numpy.load', 'ztensor'],
        digests: [],
        attributes: 'none',
        typedAttributes: false,
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        models: false,
        checkpoints: [],
        generator: false,
        padsPacked: false,
        compression: 'deflate',
      },
    ],
  },
  { name: 'onnx', title: 'ONNX', endings: ['onnx'], writes: [] },
  { name: 'pytorch', title: 'PyTorch', endings: ['pt', 'pth', 'bin', 'ckpt'], writes: [] },
  { name: 'hdf5', title: 'HDF5', endings: ['h5', 'hdf5'], writes: [] },
  { name: 'keras', title: 'Keras', endings: ['keras'], writes: [] },
  { name: 'tensorflow', title: 'TensorFlow', endings: ['index'], writes: [] },
  { name: 'flax', title: 'Flax', endings: ['msgpack'], writes: [] },
  { name: 'paddle', title: 'PaddlePaddle', endings: ['pdparams', 'pdopt', 'pdiparams'], writes: [] },
  { name: 'arrow', title: 'Arrow', endings: ['arrow', 'feather'], writes: [] },
  { name: 'tflite', title: 'TFLite', endings: ['tflite'], writes: [] },
  { name: 'openvino', title: 'OpenVINO', endings: ['xml'], writes: [] },
]

// The addon's table of formats (src/values/formats.rs), by `npm run formats`. Not edited by hand.
import { MODELS } from './format-names.js'
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

/** The mixtures of types that tensors of a model are quantized to, as in `llama-quantize`. */
export type Mixture =
  | 'f32'
  | 'f16'
  | 'q4_0'
  | 'q4_1'
  | 'q8_0'
  | 'q5_0'
  | 'q5_1'
  | 'q2_k'
  | 'q3_k_s'
  | 'q3_k_m'
  | 'q3_k_l'
  | 'q4_k_s'
  | 'q4_k_m'
  | 'q5_k_s'
  | 'q5_k_m'
  | 'q6_k'
  | 'iq2_xxs'
  | 'iq2_xs'
  | 'q2_k_s'
  | 'iq3_xs'
  | 'iq3_xxs'
  | 'iq1_s'
  | 'iq4_nl'
  | 'iq3_s'
  | 'iq3_m'
  | 'iq2_s'
  | 'iq2_m'
  | 'iq4_xs'
  | 'iq1_m'
  | 'bf16'
  | 'tq1_0'
  | 'tq2_0'
  | 'mxfp4_moe'

/** The block types that tensors are quantized to. */
export type BlockType =
  | 'q4_0'
  | 'q4_1'
  | 'q5_0'
  | 'q5_1'
  | 'q8_0'
  | 'q2_k'
  | 'q3_k'
  | 'q4_k'
  | 'q5_k'
  | 'q6_k'
  | 'q8_k'
  | 'iq4_nl'
  | 'iq4_xs'
  | 'iq2_xxs'
  | 'iq2_xs'
  | 'iq2_s'
  | 'iq3_xxs'
  | 'iq3_s'
  | 'iq1_s'
  | 'iq1_m'
  | 'tq1_0'
  | 'tq2_0'
  | 'mxfp4'
  | 'nvfp4'

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
        reserved: [],
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        checkpoints: [],
        generator: false,
        needsFirst: 'nothing',
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
        reserved: [],
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        checkpoints: [],
        generator: true,
        needsFirst: 'nothing',
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
        reserved: [],
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        checkpoints: [],
        generator: false,
        needsFirst: 'nothing',
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
        reserved: [],
        numbered: false,
        canonical: true,
        contentDigest: true,
        shards: 'root',
        checkpoints: [],
        generator: false,
        needsFirst: 'nothing',
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
        reserved: [],
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'index',
        checkpoints: [],
        generator: false,
        needsFirst: 'sizes',
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
        reserved: [],
        numbered: true,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        checkpoints: [],
        generator: false,
        needsFirst: 'sizes',
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
        reserved: ['split.no', 'split.count', 'split.tensors.count', 'ztensor.padding'],
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'numbers',
        checkpoints: ['safetensors', 'pytorch'],
        generator: false,
        needsFirst: 'sizes',
        padsPacked: false,
        alignment: { min: 8, default: 32, powersOfTwo: true, attribute: 'general.alignment' },
        model: MODELS.gguf,
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
        reserved: [],
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        checkpoints: [],
        generator: false,
        needsFirst: 'sizes',
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
        reserved: [],
        numbered: false,
        canonical: false,
        contentDigest: false,
        shards: 'none',
        checkpoints: [],
        generator: false,
        needsFirst: 'data',
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

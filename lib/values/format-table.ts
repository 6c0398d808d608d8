// The addon's table of formats (src/values/formats.rs), by `npm run formats`. Not edited by hand.
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
        streams: true,
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
        streams: true,
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
        streams: true,
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
        streams: true,
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
        streams: false,
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
        streams: false,
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
        streams: false,
        padsPacked: false,
        alignment: { min: 8, default: 32, powersOfTwo: true, attribute: 'general.alignment' },
        model: {
          name: 'general.name',
          architecture: 'general.architecture',
          contextLength: '{}.context_length',
          vocabularySize: '{}.vocab_size',
          tokens: 'tokenizer.ggml.tokens',
          chatTemplate: 'tokenizer.chat_template',
          license: 'general.license',
          mixture: 'general.file_type',
          mixtures: {
            '0': 'F32',
            '1': 'F16',
            '2': 'Q4_0',
            '3': 'Q4_1',
            '7': 'Q8_0',
            '8': 'Q5_0',
            '9': 'Q5_1',
            '10': 'Q2_K',
            '11': 'Q3_K_S',
            '12': 'Q3_K_M',
            '13': 'Q3_K_L',
            '14': 'Q4_K_S',
            '15': 'Q4_K_M',
            '16': 'Q5_K_S',
            '17': 'Q5_K_M',
            '18': 'Q6_K',
            '19': 'IQ2_XXS',
            '20': 'IQ2_XS',
            '21': 'Q2_K_S',
            '22': 'IQ3_XS',
            '23': 'IQ3_XXS',
            '24': 'IQ1_S',
            '25': 'IQ4_NL',
            '26': 'IQ3_S',
            '27': 'IQ3_M',
            '28': 'IQ2_S',
            '29': 'IQ2_M',
            '30': 'IQ4_XS',
            '31': 'IQ1_M',
            '32': 'BF16',
            '36': 'TQ1_0',
            '37': 'TQ2_0',
            '38': 'MXFP4_MOE',
          },
          embeddings: 'token_embd.weight',
          output: 'output.weight',
        },
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
        streams: false,
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
        streams: false,
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

// Folders of each kind. A folder that a page opens by its handle is opened, refused and warned of as the same folder on disk.
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fixturePath } from '../helpers/vectors.mjs'

/** A safetensors file of one tensor. */
function tensor(name) {
  const head = JSON.stringify({ [name]: { dtype: 'F32', shape: [2], data_offsets: [0, 8] } })
  const bytes = Buffer.alloc(8 + head.length + 8)
  bytes.writeBigUInt64LE(BigInt(head.length))
  bytes.write(head, 8)
  bytes.writeFloatLE(name.length, 8 + head.length)
  return bytes
}

const fixture = (name) => readFileSync(fixturePath(name))
const index = (map) => JSON.stringify({ metadata: {}, weight_map: map })
const shards = { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' }

/** The files of each folder: their contents, or the folder of fixtures that they are copied from. */
export const FOLDERS = {
  empty: {},
  'nothing to open': { 'readme.txt': 'text', 'sub/model.safetensors': tensor('a') },
  'one model': { 'model.safetensors': tensor('a'), 'config.json': '{}' },
  'several models': { 'a.safetensors': tensor('a'), 'b.safetensors': tensor('b') },
  'mixed formats': {
    'a.gguf': fixture('gguf/plain.gguf'),
    'b.safetensors': tensor('b'),
    'c.npy': fixture('numpy/c-order.npy'),
  },
  'an index': {
    'model.safetensors.index.json': index(shards),
    [shards.a]: tensor('a'),
    [shards.b]: tensor('b'),
  },
  'an index of shards in a folder': {
    'model.safetensors.index.json': index({ a: 'parts/a.safetensors', b: 'parts/b.safetensors' }),
    'parts/a.safetensors': tensor('a'),
    'parts/b.safetensors': tensor('b'),
  },
  'an index without a shard': { 'model.safetensors.index.json': index(shards), [shards.a]: tensor('a') },
  'an index without any shard': { 'model.safetensors.index.json': index(shards) },
  'an index that leads out': {
    'model.safetensors.index.json': index({ a: '../a.safetensors', b: shards.b }),
    [shards.b]: tensor('b'),
  },
  'an index beside other weights': {
    'model.safetensors.index.json': index(shards),
    [shards.a]: tensor('a'),
    [shards.b]: tensor('b'),
    'model.onnx': fixture('onnx/graph.onnx'),
    'adapter.safetensors': tensor('c'),
  },
  'several indexes': {
    'a.safetensors.index.json': index({ a: 'a.safetensors' }),
    'b.safetensors.index.json': index({ b: 'b.safetensors' }),
    'a.safetensors': tensor('a'),
    'b.safetensors': tensor('b'),
  },
  'a numbered set': { [shards.a]: tensor('a'), [shards.b]: tensor('b') },
  'a set without a file': { [shards.a]: tensor('a') },
  'a GGUF set': { from: 'gguf', names: /^split-/ },
  'a GGUF set without a file': { from: 'gguf', names: /^split-0000[13]/ },
  'npz beside pt': { 'a.npz': fixture('numpy/dtypes.npz'), 'b.pt': fixture('pytorch/dtypes.pt') },
  'a snapshot of the hub': {
    'config.json': '{"model_type":"llama"}',
    'tokenizer.json': '{}',
    'generation_config.json': '{}',
    'model.safetensors': tensor('a'),
    'pytorch_model.bin': fixture('pytorch/dtypes.pt'),
    'onnx/model.onnx': fixture('onnx/graph.onnx'),
    'original/consolidated.00.pth': fixture('pytorch/dtypes.pt'),
  },
  OpenVINO: { from: 'openvino', names: /^network\./ },
  'OpenVINO, several': { from: 'openvino', names: /./ },
  'OpenVINO without its data': { from: 'openvino', names: /^network\.xml/ },
  'a checkpoint of TensorFlow': { from: 'tensorflow/first', names: /./ },
  'a sharded checkpoint of TensorFlow': { from: 'tensorflow/sharded', names: /./ },
  'checkpoints of a manager of TensorFlow': { from: 'tensorflow/manager', names: /./ },
  'a SavedModel': { from: 'tensorflow/saved', names: /./ },
  'an adapter': { 'adapter_model.safetensors': tensor('a'), 'adapter_config.json': '{}' },
  'a broken file': { 'model.safetensors': tensor('a').subarray(0, 20) },
  'a file of another kind': { 'model.safetensors': 'version https://git-lfs.github.com/spec/v1\n' },
  'a folder with the name of a file': { 'model.safetensors/inner.safetensors': tensor('a') },
}

/** Writes the folders. Returns the path of each by its title. */
export function writeFolders(root) {
  const paths = {}
  for (const [title, files] of Object.entries(FOLDERS)) {
    const folder = join(root, title)
    paths[title] = folder
    mkdirSync(folder, { recursive: true })
    if ('from' in files) {
      for (const name of readdirSync(fixturePath(files.from)).filter((one) => files.names.test(one)))
        cpSync(fixturePath(`${files.from}/${name}`), join(folder, name), { recursive: true })
      continue
    }
    for (const [name, bytes] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), bytes)
    }
  }
  return paths
}

/** Stands for the handle of a folder, in a runtime that has none. */
export class FolderHandle {
  kind = 'directory'
  #path

  constructor(path, name) {
    this.#path = path
    this.name = name
  }

  isSameEntry() {}

  async *keys() {
    yield* readdirSync(this.#path)
  }

  #at(name, isFolder) {
    const found = statSync(join(this.#path, name), { throwIfNoEntry: false })
    if (found === undefined) throw new DOMException('no such entry', 'NotFoundError')
    if (found.isDirectory() !== isFolder) throw new DOMException('another kind', 'TypeMismatchError')
    return join(this.#path, name)
  }

  async getDirectoryHandle(name) {
    return new FolderHandle(this.#at(name, true), name)
  }

  async getFileHandle(name) {
    const path = this.#at(name, false)
    return { getFile: async () => new File([readFileSync(path)], name) }
  }
}

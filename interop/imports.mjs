// The packages that write the formats we import, and servers of files. Each compares files that a package writes now with what we read: `compare` is given where
// environments and files go (`build`), the Python to make environments with, and the folders of scripts (`fixtures`, `interop`).
// Those whose packages are large are `heavy`, and run on demand.
import { compareArrow } from './arrow.mjs'
import { compareCheckpoints } from './checkpoints.mjs'
import { compareFlax } from './flax.mjs'
import { compareGguf } from './gguf.mjs'
import { compareGuide, compareGuideOfTorch } from './guide.mjs'
import { compareHdf5 } from './hdf5.mjs'
import { compareHub } from './hub.mjs'
import { compareLlama } from './llama.mjs'
import { compareMutated } from './mutated.mjs'
import { compareNumpy, readOurs } from './numpy.mjs'
import { compareOnnx } from './onnx.mjs'
import { compareOpenVino } from './openvino.mjs'
import { comparePaddle } from './paddle.mjs'
import { comparePytorch } from './pytorch.mjs'
import { compareKernels, compareQuantize } from './quantize.mjs'
import { compareQuantized } from './quantized.mjs'
import { compareDemo, compareRuns } from './runs.mjs'
import { compareAzurite, compareFakeGcs, compareNginx, compareVersitygw } from './servers.mjs'
import { compareStore } from './stores.mjs'
import { compareTensorFlow } from './tensorflow.mjs'
import { compareTflite } from './tflite.mjs'

export const imports = [
  { name: 'gguf 0.19.0', of: 'quantized tensors of gguf and the profiles', compare: compareQuantized },
  { name: 'gguf 0.19.0', of: 'types and files of gguf', compare: compareGguf },
  { name: 'node-llama-cpp 3.21.1', of: 'kinds of weights quantized', compare: compareQuantize },
  { name: 'node-llama-cpp 3.21.1', of: 'models of the demo that decode a token', compare: compareDemo },
  { name: 'node-llama-cpp 3.21.1', of: 'kinds of many weights quantized', heavy: true, compare: compareKernels },
  { name: 'numpy 2.4.6', of: 'files of numpy and scipy', compare: compareNumpy },
  { name: 'numpy 2.4.6', of: 'files of ours that numpy reads', compare: readOurs },
  { name: 'numpy 2.4.6', of: 'mutated files that both read', compare: compareMutated('numpy') },
  { name: 'safetensors 0.8.0', of: 'mutated files that both read', compare: compareMutated('safetensors') },
  { name: 'gguf 0.19.0', of: 'mutated files that both read', compare: compareMutated('gguf') },
  { name: 'onnx 1.23.2', of: 'mutated files that both read', compare: compareMutated('onnx') },
  { name: 'torch 2.4.1', of: 'files of torch', heavy: true, compare: comparePytorch },
  { name: 'node-llama-cpp 3.21.1', of: 'whole files quantized', heavy: true, compare: compareLlama },
  { name: 'llama-cpp-python 0.3.36', of: 'plans of checkpoints', heavy: true, compare: compareCheckpoints },
  { name: 'node-llama-cpp 3.21.1', of: 'tokens of checkpoints', heavy: true, compare: compareRuns },
  { name: 'flax 0.12.8', of: 'files of flax', heavy: true, compare: compareFlax },
  { name: 'paddlepaddle 3.3.1', of: 'files of paddle', heavy: true, compare: comparePaddle },
  { name: 'onnx 1.23.2', of: 'files of onnx', compare: compareOnnx },
  { name: 'h5py 3.16.0', of: 'files of h5py and keras', compare: compareHdf5 },
  { name: 'pyarrow 26.0.1', of: 'files of pyarrow', compare: compareArrow },
  { name: 'tflite 2.18.0', of: 'models of tflite', compare: compareTflite },
  { name: 'openvino 2026.4.1', of: 'models of openvino', compare: compareOpenVino },
  { name: 'moto 5.2.5', of: 'files by s3: URLs from moto', compare: compareStore },
  { name: 'huggingface_hub 2.4.0', of: 'ways to share the cache of the hub', compare: compareHub },
  { name: 'nginx', of: 'checks of files by HTTP and HTTPS', compare: compareNginx },
  { name: 'versitygw 1.8.0', of: 'checks of files by s3: URLs', compare: compareVersitygw },
  { name: 'fake-gcs-server 1.56.1', of: 'checks of files by gs: URLs', compare: compareFakeGcs },
  { name: 'azurite 3.37.0', of: 'checks of files by az: URLs', compare: compareAzurite },
  { name: 'guide', of: 'programs of docs/guide/python.md', compare: compareGuide },
  { name: 'guide of torch', of: 'programs of docs/guide/python.md', heavy: true, compare: compareGuideOfTorch },
  { name: 'tensorflow 2.21.0', of: 'checkpoints of tensorflow', heavy: true, compare: compareTensorFlow },
]

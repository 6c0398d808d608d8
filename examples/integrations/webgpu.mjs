// WebGPU: tensors go to the GPU in pieces, so that memory holds no second copy of a large one. WGSL has no types of 8 or 64 bits: the
// shader gets the bytes of bfloat16 and widens them there.
import assert from 'node:assert/strict'
import { create, globals } from 'webgpu'
import { open } from 'ztensor'

// Dawn crashes if its instance is collected before its devices: here the instance lives as long as the program.
const gpu = create([])
Object.assign(globalThis, globals, { gpu })
const { GPUBufferUsage } = globals
const adapter = await gpu.requestAdapter()
if (adapter === null) {
  console.log('webgpu: not run, no adapter')
  process.exit(2)
}
const device = await adapter.requestDevice()

const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const tensor = file.tensor('transformer.h.0.mlp.c_fc.weight')
const size = Math.ceil(tensor.byteLength / 4) * 4
const input = device.createBuffer({ size, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST })
let offset = 0
for await (const bytes of tensor.createReadStream({ highWaterMark: 1 << 16 })) {
  // The queue copies multiples of four bytes: only the last piece may need padding.
  const padded = bytes.length % 4 === 0 ? bytes : Buffer.concat([bytes, Buffer.alloc(4 - (bytes.length % 4))])
  device.queue.writeBuffer(input, offset, padded)
  offset += bytes.length
  await device.queue.onSubmittedWorkDone()
}

const code = `
  @group(0) @binding(0) var<storage, read> pairs: array<u32>;
  @group(0) @binding(1) var<storage, read_write> wide: array<f32>;
  @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= arrayLength(&pairs)) { return; }
    wide[2 * id.x] = bitcast<f32>(pairs[id.x] << 16);
    wide[2 * id.x + 1] = bitcast<f32>(pairs[id.x] & 0xffff0000);
  }`
const output = device.createBuffer({ size: tensor.size * 4, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC })
const read = device.createBuffer({ size: tensor.size * 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
const module = device.createShaderModule({ code })
const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: 'main' } })
const entries = [input, output].map((buffer, binding) => ({ binding, resource: { buffer } }))
const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries })
const encoder = device.createCommandEncoder()
const pass = encoder.beginComputePass()
pass.setPipeline(pipeline)
pass.setBindGroup(0, group)
pass.dispatchWorkgroups(Math.ceil(tensor.size / 2 / 64))
pass.end()
encoder.copyBufferToBuffer(output, 0, read, 0, tensor.size * 4)
device.queue.submit([encoder.finish()])
await read.mapAsync(globals.GPUMapMode.READ)
assert.deepEqual(new Float32Array(read.getMappedRange()), await tensor.load({ as: 'float32' }))
console.log('webgpu:', tensor.size, 'numbers of bfloat16 widened by', adapter.info.description || adapter.info.vendor)
file.close()
process.exit(0)

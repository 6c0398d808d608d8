// `npm run test:addon-asan`: builds the addon under AddressSanitizer and runs tests of lifetimes with it, in Node itself: finalizers,
// workers, moved memory, closing, sharing. Needs nightly Rust and gcc's libasan (Linux on x64). Other test files may be named.
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { capture, root, runOrExit } from '../../scripts/command.mjs'
import { TYPES } from '../../scripts/entries.mjs'
import { hostPlatform } from '../../scripts/platform.mjs'

const TARGET = 'x86_64-unknown-linux-gnu'
const FILES = [
  'memory/lifetimes',
  'memory/moved',
  'data/shared-work',
  'calls/signals',
  'memory/shrinking',
  'data/data',
  'data/load',
  'memory/close',
  'data/batch',
  'memory/share',
  'data/parallel',
  'data/read-consistency',
  'memory/shared-memory',
]
const files = process.argv.length > 2 ? process.argv.slice(2) : FILES.map((name) => `__test__/${name}.test.mjs`)
const target = process.env.CARGO_TARGET_DIR ?? 'target/asan'

// A library does not include the runtime. gcc's runtime supports LLVM's code, and must be loaded before Node's malloc.
const { stdout } = await capture('gcc', ['-print-file-name=libasan.so'])
const runtime = stdout.trim()
process.env.RUSTFLAGS = '-Zsanitizer=address'
// gcc makes constant local arrays of zstd static, but reports a thread that reads one after another thread has left its scope.
process.env.CFLAGS = '-fno-sanitize-address-use-after-scope'
runOrExit('cargo', ['+nightly', 'build', '--quiet', '--target', TARGET, '--target-dir', target])

const folder = mkdtempSync(join(tmpdir(), 'ztensor-asan-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const part of ['package.json', 'dist', '__test__', 'scripts/entries.mjs', ...TYPES]) {
  cpSync(join(root, part), join(folder, part), { recursive: true })
}
symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
cpSync(join(root, target, TARGET, 'debug/libztensor_node.so'), join(folder, `ztensor.${hostPlatform}.node`))

// V8 keeps its heap to the end, which is not a leak; the addon handles faults of lost pages. Some tests measure resident memory, so
// the quarantine of freed memory is smaller than by default. libdeflate compiles one template several times, whose static
// tables all have the same names.
const env = {
  ...process.env,
  RUSTFLAGS: '',
  LD_PRELOAD: runtime,
  ASAN_OPTIONS: 'detect_leaks=0:detect_odr_violation=0:quarantine_size_mb=32:allow_user_segv_handler=1:handle_sigbus=0',
  ZTENSOR_CYCLES: process.env.ZTENSOR_CYCLES ?? '2000',
}
const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')
const { status, output } = await capture(process.execPath, [ava, '--serial', ...files], {
  cwd: folder,
  env,
  echo: true,
})
const found = [...output.matchAll(/ERROR: AddressSanitizer: .*/g)]
for (const [line] of found) console.error(line)
const passed = [...output.matchAll(/^ +[✔√] /gm)].length
const failed = [...output.matchAll(/^ +[✘✖×] /gm)].length
console.log(`addon under AddressSanitizer: ${passed} passed, ${Math.max(failed, Number(status !== 0))} failed`)
process.exitCode = status === 0 && passed > 0 && found.length === 0 ? 0 : 1

// The texts of the progress bar, and `--quiet`.
import { spawnSync } from 'node:child_process'
import { fileURLToPath, pathToFileURL } from 'node:url'
import test from 'ava'
import { build } from 'esbuild'
import { fixture, main } from '../helpers/command.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const outfile = scratchPath('progress.mjs')
await build({
  entryPoints: ['cli/progress.ts'],
  absWorkingDir: fileURLToPath(new URL('../../', import.meta.url)),
  bundle: true,
  platform: 'node',
  format: 'esm',
  external: ['cli-progress'],
  outfile,
})
const { showRemaining, showSeconds } = await import(pathToFileURL(outfile))

test('shows the remaining time only after enough data, and never 0 before the end', (t) => {
  const at = (bytes, seconds) => showRemaining({ bytes, totalBytes: 1000 }, seconds)
  t.is(at(50, 0.1), '', 'too early')
  t.is(at(10, 60), '', 'too little')
  t.is(at(50, 10), '3m10s left')
  t.is(at(999, 10), '1s left')
  t.is(at(1000, 10), '')
  t.is(showRemaining({ bytes: 0, totalBytes: 0 }, 10), '')
})

test('formats durations', (t) => {
  t.deepEqual([0, 0.2, 59, 60, 61, 3600, 7265].map(showSeconds), [
    '1s',
    '1s',
    '59s',
    '1m00s',
    '1m01s',
    '1h00m',
    '2h01m',
  ])
})

const hasTerminal = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0
const inATerminal = hasTerminal ? test : test.skip

inATerminal('--quiet shows no progress', (t) => {
  for (const command of ['verify', 'stats']) {
    const shown = (...options) => {
      const words = [process.execPath, main, command, fixture('zt12-crc32c.zt'), ...options].map((word) => `'${word}'`)
      return spawnSync('script', ['-qec', words.join(' '), '/dev/null'], { encoding: 'utf8' }).stdout
    }
    t.regex(shown(), /100%/, command)
    t.notRegex(shown('--quiet'), /%/, command)
  }
})

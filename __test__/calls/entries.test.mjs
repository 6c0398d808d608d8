// Every function that the addon exports catches panics: an uncaught one would end the process. `npm run test:panics`
// tests their results.
import { readdirSync, readFileSync } from 'node:fs'
import test from 'ava'

const sources = new URL('../../src/', import.meta.url)
const texts = readdirSync(sources, { recursive: true })
  .filter((name) => name.endsWith('.rs'))
  .map((name) => readFileSync(new URL(name.replaceAll('\\', '/'), sources), 'utf8'))
const EXPORTED =
  /#\[napi(\((?:"[^"]*"|[^\]"])*\))?\]\s*(?:#\[[^\]]*\]\s*)*pub(?:\([^)]*\))?\s+(?:async\s+|unsafe\s+)*fn\s+(\w+)/g

test('every callback from the host catches panics', (t) => {
  const callbacks = texts.flatMap((text) => text.split(/^(?:unsafe )?extern "C" fn /m).slice(1))
  t.true(callbacks.length >= 2)
  for (const callback of callbacks) t.regex(callback.slice(0, callback.indexOf('\n}\n')), /\bcontain\(/)
})

test('every exported function catches panics', (t) => {
  const functions = texts.flatMap((text) => [...text.matchAll(EXPORTED)])
  t.true(functions.length > 80, `${functions.length}`)
  t.deepEqual(
    functions.filter(([, options = '']) => !options.includes('catch_unwind')).map(([, , name]) => name),
    [],
  )
})

// The list of phrases that the project does not use finds each of them.
import test from 'ava'
import { phrases, phrasesIn } from '../../scripts/words.mjs'

const path = '__test__/a.test.mjs'

for (const { find, instead, example } of phrases) {
  test(`finds the phrase ${find}`, (t) => {
    const [found, ...others] = phrasesIn(path, `first line\n${example}\n`)
    t.deepEqual(others, [])
    t.is(found.line, 2)
    t.is(found.instead, instead)
    t.true(example.includes(found.text))
  })
}

test('finds a phrase across two lines of a comment', (t) => {
  for (const mark of ['//', '///', '//!', '#', ' *', '']) {
    t.like(
      phrasesIn(path, `code\n${mark} Prints what came\n${mark} of it.`),
      [{ line: 2, instead: 'the result' }],
      mark,
    )
  }
})

test('lists all phrases of a file, in order', (t) => {
  const found = phrasesIn(path, 'what is wanted\nwhat came of it\nnothing at all, and no color at all')
  t.deepEqual(
    found.map(({ line, text }) => [line, text]),
    [
      [1, 'what is wanted'],
      [2, 'came of'],
      [3, 'at all'],
      [3, 'at all'],
    ],
  )
})

test('accepts plain sentences', (t) => {
  t.deepEqual(
    phrasesIn(
      path,
      "It became official. The user is 'nobody'. Returns an existing file. There is no tensor of that name; there is no file.",
    ),
    [],
  )
})

test('checks some phrases in tests and tools only', (t) => {
  t.deepEqual(phrasesIn('crates/core/src/lib.rs', 'not at all'), [])
  t.is(phrasesIn('bench/run.mjs', 'not at all').length, 1)
})

// The words of the repository: the program `typos` checks the spelling and single words (_typos.toml), the list below checks
// phrases. `--phrases` leaves out `typos`, `--requirement` prints what pip installs.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isInstalled, root } from './command.mjs'

const REQUIREMENT = 'typos==1.52.0'

/** Tests and tools. In documentation these phrases are plain English. */
const TOOLS = ['__test__/', 'bench/', 'examples/', 'fuzz/', 'interop/', 'scripts/', '.ci/', '.github/']

/**
 * The pattern, the words to write instead, a sentence that the pattern finds and, if other folders still contain it, the folders to
 * check. A space in a pattern matches any white space and the start of a comment's next line. Single words without exceptions belong in
 * _typos.toml, which also finds them as parts of names.
 */
export const phrases = [
  { find: /\bcame of\b/, instead: 'the result', example: 'Prints what came of it.' },
  { find: /\bcomes of (?:it|this|that|them)\b/, instead: 'the result', example: 'what comes of it' },
  { find: /\bis asked of\b/, instead: 'requires', example: 'what is asked of a reader' },
  { find: /\bwhat is wanted\b/, instead: 'the request', example: 'It reads what is wanted.' },
  {
    find: /\bnobody (?=[a-z])/,
    instead: 'no caller, must not, cannot',
    example: 'a stream that nobody reads',
  },
  { find: /\bNobody\b/, instead: 'No caller', example: 'Nobody can know the name.' },
  {
    find: /\bthat (?:is|are|was|were) (?:not )?there\b/,
    instead: 'existing, missing',
    example: 'a file that is there',
  },
  { find: /\bwhich (?:is|are) not there\b/, instead: 'missing', example: 'files, which are not there' },
  { find: /\bas (?:it was|they were)\b/, instead: 'unchanged', example: 'leaves the file as it was' },
  { find: /\bat all\b/, instead: 'nothing: it can be left out', example: 'no digest at all', folders: TOOLS },
  { find: /\bgoes? through\b/, instead: 'passes, uses', example: 'Every path goes through it.' },
  { find: /\bof (?:its|their|your) own\b/, instead: 'own, separate', example: 'a process of its own', folders: TOOLS },
  {
    find: /(?<![Tt]here )\b(?:is|are) no (?:tensor|file|text|JSON|UTF-8|record|size|path|string|array)\b/,
    instead: 'is not a',
    example: 'a name that is no text',
  },
  { find: /\bthat (?:is|are) none\b/, instead: 'invalid', example: 'a magic that is none' },
  { find: /\bsaid\b/, instead: 'printed, stated', example: 'what the command said' },
  { find: /\bsomebody\b/, instead: 'another process, a caller', example: 'when somebody asks for it' },
  { find: /\bwhat becomes of\b/, instead: 'the result of', example: 'what becomes of the file' },
  { find: /\bbut for\b/, instead: 'except', example: 'the lines of a program but for imports' },
]

const SPACE = String.raw`(?:\s|//[/!]?|\*|#)+`
const patterns = phrases.map(({ find, ...row }) => ({
  ...row,
  pattern: new RegExp(find.source.replaceAll(' ', SPACE), 'g'),
}))

/** The phrases in a file: `[{ line, text, instead }]`. */
export function phrasesIn(path, text) {
  return patterns
    .filter(({ folders }) => folders === undefined || folders.some((folder) => path.startsWith(folder)))
    .flatMap(({ pattern, instead }) =>
      [...text.matchAll(pattern)].map((match) => ({
        line: text.slice(0, match.index).split('\n').length,
        text: match[0].replaceAll(/\s+/g, ' '),
        instead,
      })),
    )
    .sort((one, other) => one.line - other.line)
}

const TEXT = /(?:\.(?:[cm]?[jt]s|tsx|html|css|md|py|rs|sh|toml|ya?ml)|\.ci\/run)$/
/** The lists of words and phrases themselves. */
const LISTS = new Set(['scripts/words.mjs', '__test__/package/words.test.mjs', '_typos.toml'])

function checkPhrases() {
  const { stdout } = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  })
  // The list still contains files that were deleted and not committed.
  const isChecked = (path) => TEXT.test(path) && !LISTS.has(path) && existsSync(join(root, path))
  const paths = stdout.split('\0').filter(isChecked)
  if (paths.length === 0) return ['no files were found: is this a git repository?']
  return paths.flatMap((path) =>
    phrasesIn(path, readFileSync(join(root, path), 'utf8')).map(
      ({ line, text, instead }) => `${path}:${line}: "${text}": write ${instead}`,
    ),
  )
}

function checkSpelling() {
  if (!isInstalled('typos')) return [`typos is not installed: pip install ${REQUIREMENT}`]
  const { status, stdout, stderr } = spawnSync('typos', ['--format', 'brief'], { cwd: root, encoding: 'utf8' })
  if (status === 0) return []
  return `${stdout}${stderr}`.trimEnd().split('\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--requirement')) {
    console.log(REQUIREMENT)
  } else {
    const problems = [...checkPhrases(), ...(process.argv.includes('--phrases') ? [] : checkSpelling())]
    for (const problem of problems) console.error(problem)
    console.log(`words: ${problems.length === 0 ? 1 : 0} passed, ${problems.length} failed`)
    process.exitCode = problems.length > 0 ? 1 : 0
  }
}

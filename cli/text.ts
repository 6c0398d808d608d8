// Makes text from a file safe for a terminal, and measures it. A tensor name may contain an escape sequence that repaints the screen, a
// newline that forges a row, or a bidirectional override that imitates another name. None of them is printed raw.

// Patterns are compiled lazily: that takes 0.5 ms, and most files are all ASCII.
// Matches control, format, private-use and unassigned characters, lone surrogates, line separators and invisible characters; and
// combining marks at the start of a text or in stacks of five, which would overwrite adjacent text.
let unsafe: RegExp | undefined
function unsafePattern(): RegExp {
  unsafe ??= /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|^\p{M}|(?<=\p{M}{4})\p{M}/gu
  return unsafe
}
const plain = /^[ -~]*$/
const named: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) as number
  return named[character] ?? (code <= 0xff ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`)
}

/** Escapes unsafe characters of a message or path. A backslash is not escaped. */
export function printable(text: string): string {
  return plain.test(text) ? text : text.replace(unsafePattern(), escapeCharacter)
}

/**
 * Formats a tensor name or attribute unambiguously: unsafe characters and backslashes are escaped, and a text that is empty or contains
 * white space or quotes is quoted. `parseName` parses it.
 */
export function showName(name: string): string {
  const escaped = printable(name.includes('\\') ? name.replaceAll('\\', '\\\\') : name)
  return escaped === '' || /[\s"]/.test(escaped) ? `"${escaped.replaceAll('"', '\\"')}"` : escaped
}

/** Parses the text of `showName`, with or without its quotes, which a shell may have removed. */
export function parseName(shown: string): string {
  const inner = /^".*"$/s.test(shown) && shown.length > 1 ? shown.slice(1, -1) : shown
  return inner.replace(/\\(?:x([0-9a-f]{2})|u\{([0-9a-f]{1,6})\}|([nrt\\"]))/g, (whole, byte, code, letter) => {
    if (letter !== undefined) return { n: '\n', r: '\r', t: '\t' }[letter as string] ?? letter
    const point = Number.parseInt(byte ?? code, 16)
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole
  })
}

/** Replaces characters of `json` that are unsafe for a terminal by equivalent \u escapes. */
export function printableJson(json: string): string {
  return json.replace(unsafePattern(), (character) => {
    if (character === '\n') return character
    return Array.from({ length: character.length }, (_, unit) => {
      return `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`
    }).join('')
  })
}

// Characters that are two columns wide in a terminal: East Asian Wide and Fullwidth, and emoji. https://www.unicode.org/reports/tr11/
let wide: RegExp | undefined
function isWide(grapheme: string): boolean {
  wide ??=
    /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{20000}-\u{3fffd}\p{Emoji_Presentation}]/u
  return wide.test(grapheme)
}
// Created lazily: it takes about 10 ms.
let segmenter: Intl.Segmenter | undefined

function graphemes(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' })
  return segmenter.segment(text)
}

/** The width of `text` in a terminal, in columns. `text` must be printable and uncolored. */
export function columns(text: string): number {
  if (plain.test(text)) return text.length
  let total = 0
  for (const { segment } of graphemes(text)) total += isWide(segment) ? 2 : 1
  return total
}

/** Shortens `text` to at most `limit` columns, with an ellipsis in its middle: the ends of names tell them apart. */
export function shortenMiddle(text: string, limit: number): string {
  if (columns(text) <= limit) return text
  const all = plain.test(text) ? Array.from(text) : Array.from(graphemes(text), ({ segment }) => segment)
  const widths = all.map((grapheme) => (plain.test(grapheme) ? 1 : columns(grapheme)))
  let [start, end] = [0, all.length]
  let [left, right] = [0, 0]
  while (start < end) {
    // The end gets the first column that is left over.
    const fromEnd = right <= left
    const width = widths[fromEnd ? end - 1 : start] as number
    if (left + right + width > limit - 1) break
    if (fromEnd) {
      right += width
      end--
    } else {
      left += width
      start++
    }
  }
  return `${all.slice(0, start).join('')}…${all.slice(end).join('')}`
}

/** Truncates `text` to at most `limit` columns, with an ellipsis if it was truncated. */
export function shorten(text: string, limit: number): string {
  // A grapheme has at least one UTF-16 unit and is at most two columns wide.
  if (text.length * 2 <= limit) return text
  if (plain.test(text)) return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`
  let total = 0
  let end = 0
  for (const { segment, index } of graphemes(text)) {
    total += isWide(segment) ? 2 : 1
    if (total > limit) return `${text.slice(0, end)}…`
    if (total < limit) end = index + segment.length
  }
  return text
}

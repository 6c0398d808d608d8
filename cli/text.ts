// Text from a file, made safe and measurable for a terminal. A tensor name may hold an escape sequence that repaints the
// screen, a newline that forges a row, or a bidirectional override that turns one name into another: none is printed raw.

// Here and below a pattern is made when the first text needs it: that takes 0.5 ms, and most files are all ASCII.
// Every control, format, private and unassigned character, lone surrogate, line separator and invisible character; and
// combining marks that start a text or pile up five high, which would overwrite their neighbours.
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

/** `text` on one line, its unsafe characters as escapes. Meant for messages and paths: a backslash stays as it is. */
export function printable(text: string): string {
  return plain.test(text) ? text : text.replace(unsafePattern(), escapeCharacter)
}

/**
 * A tensor name or attribute as it is shown: escapes are unambiguous (a backslash is doubled), and a text that is empty or
 * holds white space or quotes stands between quotes. `parseName` reads it back.
 */
export function showName(name: string): string {
  const escaped = printable(name.includes('\\') ? name.replaceAll('\\', '\\\\') : name)
  return escaped === '' || /[\s"]/.test(escaped) ? `"${escaped.replaceAll('"', '\\"')}"` : escaped
}

/** The name behind `showName`'s text, its quotes already taken off by the shell or still there. */
export function parseName(shown: string): string {
  const inner = /^".*"$/s.test(shown) && shown.length > 1 ? shown.slice(1, -1) : shown
  return inner.replace(/\\(?:x([0-9a-f]{2})|u\{([0-9a-f]{1,6})\}|([nrt\\"]))/g, (whole, byte, code, letter) => {
    if (letter !== undefined) return { n: '\n', r: '\r', t: '\t' }[letter as string] ?? letter
    const point = Number.parseInt(byte ?? code, 16)
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole
  })
}

/** `json` with the characters that a terminal would obey as \u escapes, which mean the same to a JSON parser. */
export function printableJson(json: string): string {
  return json.replace(unsafePattern(), (character) => {
    if (character === '\n') return character
    return Array.from({ length: character.length }, (_, unit) => {
      return `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`
    }).join('')
  })
}

// Two columns wide in a terminal: East Asian Wide and Fullwidth, and emoji. https://www.unicode.org/reports/tr11/
let wide: RegExp | undefined
function isWide(grapheme: string): boolean {
  wide ??=
    /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{20000}-\u{3fffd}\p{Emoji_Presentation}]/u
  return wide.test(grapheme)
}
// This takes some 10 ms.
let segmenter: Intl.Segmenter | undefined

function graphemes(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' })
  return segmenter.segment(text)
}

/** The columns that `text` takes in a terminal. `text` is printable and holds no colour. */
export function columns(text: string): number {
  if (plain.test(text)) return text.length
  let total = 0
  for (const { segment } of graphemes(text)) total += isWide(segment) ? 2 : 1
  return total
}

/** `text` cut to at most `limit` columns, the last one an ellipsis where something was cut. */
export function shorten(text: string, limit: number): string {
  // A grapheme holds at least one UTF-16 unit and is at most two columns wide.
  if (text.length * 2 <= limit) return text
  if (plain.test(text)) return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`
  let total = 0
  let kept = 0
  for (const { segment, index } of graphemes(text)) {
    total += isWide(segment) ? 2 : 1
    if (total > limit) return `${text.slice(0, kept)}…`
    if (total < limit) kept = index + segment.length
  }
  return text
}

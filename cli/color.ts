// Colors only in a terminal without NO_COLOR (https://no-color.org). FORCE_COLOR overrides both, as in Node; FORCE_COLOR=0 turns colors
// off.

const styles = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const
export type Style = keyof typeof styles
export type Paint = (style: Style, text: string) => string

function wanted(stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  const force = env.FORCE_COLOR
  if (force !== undefined) return force !== '0' && force !== 'false'
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb'
}

/** Returns a function that styles text for `stream`. */
export function painter(stream: { isTTY?: boolean } = process.stdout, env = process.env): Paint {
  if (!wanted(stream, env)) return (_, text) => text
  return (style, text) => `\x1b[${styles[style][0]}m${text}\x1b[${styles[style][1]}m`
}

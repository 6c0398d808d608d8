// The addresses that people paste.

const HUB = 'https://huggingface.co'

/** The file of a hub address: `hf://owner/repository[@revision]/path`. */
function ofHub(text: string): URL {
  const [, owner, name, revision = 'main', path] = /^hf:\/\/([^/@]+)\/([^/@]+)(?:@([^/]+))?\/(.+)$/.exec(text) ?? []
  if (path === undefined) throw new Error('Name a file of the repository: hf://owner/repository/model.safetensors')
  return new URL(
    encodeURI(`/${owner}/${name}/resolve/${encodeURIComponent(decodeURIComponent(revision))}/${path}`),
    HUB,
  )
}

/** Returns the URL of a file. The page of a file on the hub stands for the file. */
export function addressOf(text: string, base: string): URL {
  const given = text.trim()
  if (given.startsWith('hf://')) return ofHub(given)
  if (given === '' || !URL.canParse(given, base)) throw new Error(`This is not a URL: ${given}`)
  const url = new URL(given, base)
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new Error(`Only URLs that begin with https:, http: or hf: can be opened, not ${url.protocol}`)
  if (url.origin === HUB) url.pathname = url.pathname.replace(/^(\/[^/]+\/[^/]+)\/blob\//, '$1/resolve/')
  return url
}

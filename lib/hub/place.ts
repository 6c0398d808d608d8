// Addresses of the Hugging Face hub: what an `hf:` URL names, and where the cache of the hub's clients has it.
import { join } from 'node:path'
import type { RemoteAccess } from '../values/remote.js'
import { partsOf } from './native.js'

/** A repository, or a folder or file of it, at a revision. */
export interface Place {
  /** The folder with the caches of all repositories, which may not exist. */
  readonly root: string
  /** The cache folder of this repository: `models--owner--name`. */
  readonly folder: string
  /** `models`, `datasets` or `spaces`. */
  readonly kind: string
  /** `owner/name`. */
  readonly repository: string
  readonly revision: string
  /** The path of the folder or file in the repository; empty for the repository. */
  readonly path: string
}

/** The `hf:` URL of a repository, in the form that users write. */
const repositoryUrl = ({ kind, repository }: Pick<Place, 'kind' | 'repository'>): string =>
  `hf://${kind === 'models' ? '' : `${kind}/`}${repository}`

/** The `hf:` URL of a path at a revision. Characters with a meaning in URLs are encoded. */
export function urlOf(place: Pick<Place, 'kind' | 'repository'>, revision: string, path: string): string {
  const names = path === '' ? [] : path.split('/')
  return [`${repositoryUrl(place)}@${revision}`, ...names.map(encodeURIComponent)].join('/')
}

/** The cache folder of the hub's clients: `HF_HUB_CACHE`, or `~/.cache/huggingface/hub`. */
export const cacheRoot = async (remote: RemoteAccess): Promise<string> => (await partsOf('', remote))[0] as string

/** @throws RangeError ZT_INVALID_ARG if the URL names no repository */
export async function placeOf(url: string, remote: RemoteAccess): Promise<Place> {
  type Parts = [root: string, kind: string, owner: string, name: string, revision: string, ...names: string[]]
  const [root, kind, owner, name, revision, ...names] = (await partsOf(url, remote)) as Parts
  const folder = join(root, [kind, owner, name].join('--'))
  return { root, folder, kind, repository: `${owner}/${name}`, revision, path: names.join('/') }
}

/** Whether a path of a repository has only plain names: no name leads elsewhere on any system. */
export const isPlain = (path: string): boolean =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are not permitted in names on Windows.
  !/[\\:\x00-\x1f]/.test(path) && path.split('/').every((name) => name !== '' && !/^\.*$/.test(name))

// What a model is. The report page has these types, too: they import nothing.

/** What the metadata says of a model. A property is undefined where the metadata does not say it. Texts may be cut after 4,096 characters. */
export interface ModelSummary {
  readonly name?: string | undefined
  /** The architecture, such as `'llama'`. */
  readonly architecture?: string | undefined
  /** Maximum number of tokens of a sequence. */
  readonly contextLength?: number | undefined
  /** Number of tokens of the vocabulary. */
  readonly vocabularySize?: number | undefined
  /** The mixture of types that the file states, as llama.cpp writes it: `'Q4_K_M'`. */
  readonly mixture?: string | undefined
  readonly hasChatTemplate: boolean
  /** Whether the embeddings of tokens are the output, too; undefined if there are none. */
  readonly tiedEmbeddings?: boolean | undefined
  readonly license?: string | undefined
}

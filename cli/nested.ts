// Formats values in nested brackets, as NumPy does. Works incrementally, so that not all values are in memory.

export interface NestedShape {
  /** The number of shown elements along each dimension. */
  shown: readonly number[]
  /** The number of elements before the ellipsis; undefined if nothing is omitted. */
  elidedAfter?: readonly (number | undefined)[]
  /** The line width, at which rows are wrapped. */
  columns?: number
}

/** Collects elements in row-major order; `take` returns the text so far. The text is valid JSON if nothing is omitted. */
export class NestedText {
  readonly #shown: readonly number[]
  readonly #elidedAfter: readonly (number | undefined)[]
  readonly #columns: number
  /** The number of elements in one index of each dimension. */
  readonly #below: readonly number[]
  #text = ''
  #count = 0
  #column = 0
  #afterComma = false

  constructor({ shown, elidedAfter = [], columns = Number.POSITIVE_INFINITY }: NestedShape) {
    this.#shown = shown
    this.#elidedAfter = elidedAfter
    this.#columns = columns
    this.#below = shown.map((_, dimension) =>
      shown.slice(dimension + 1).reduce((product, extent) => product * extent, 1),
    )
  }

  get #rank(): number {
    return this.#shown.length
  }

  /** Adds the next element. */
  add(element: string): void {
    if (this.#count === 0) {
      this.#open(this.#rank)
      this.#item(element)
    } else {
      const ended = this.#ended()
      // The dimension that continues; later dimensions restart.
      const dimension = this.#rank - 1 - ended
      const index = (this.#count / (this.#below[dimension] ?? 1)) % (this.#shown[dimension] ?? 1)
      const elided = this.#elidedAfter[dimension] === index
      this.#close(ended)
      this.#separate(ended)
      if (elided) {
        this.#item('…')
        this.#separate(ended)
      }
      this.#open(ended)
      this.#item(element)
    }
    this.#count++
  }

  /** Closes the brackets after the last element. An empty tensor is []. */
  end(): void {
    if (this.#count === 0) this.#text += '[]'
    else this.#close(this.#rank)
  }

  /** Returns the text since the last call. */
  take(): string {
    const text = this.#text
    this.#text = ''
    return text
  }

  /** The number of dimensions, counted from the last, that have just ended. */
  #ended(): number {
    let dimension = this.#rank - 1
    while (dimension >= 0 && this.#count % ((this.#below[dimension] ?? 1) * (this.#shown[dimension] ?? 1)) === 0)
      dimension--
    return this.#rank - 1 - dimension
  }

  #item(text: string): void {
    if (this.#afterComma) {
      // One more for the comma or bracket that follows.
      const fits = this.#column + text.length + 2 <= this.#columns
      this.#text += fits ? ' ' : `\n${' '.repeat(this.#rank)}`
      this.#column = fits ? this.#column + 1 : this.#rank
      this.#afterComma = false
    }
    this.#text += text
    this.#column += text.length
  }

  #open(dimensions: number): void {
    this.#text += '['.repeat(dimensions)
    this.#column += dimensions
  }

  #close(dimensions: number): void {
    for (let dimension = this.#rank - 1; dimension >= this.#rank - dimensions; dimension--) {
      if (this.#elidedAfter[dimension] === this.#shown[dimension]) {
        this.#separate(this.#rank - 1 - dimension)
        this.#item('…')
      }
      this.#text += ']'
    }
  }

  /** Separates two elements after `ended` dimensions were closed: a line break between rows, blank lines between matrices. */
  #separate(ended: number): void {
    if (ended === 0) {
      this.#text += ','
      this.#column++
      this.#afterComma = true
    } else {
      this.#text += `,${'\n'.repeat(ended)}${' '.repeat(this.#rank - ended)}`
      this.#column = this.#rank - ended
    }
  }
}

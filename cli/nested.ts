// Values between nested brackets, as numpy prints them, one element at a time: what is shown need not be in memory at once.

export interface NestedShape {
  /** How many elements are shown along each dimension. */
  shown: readonly number[]
  /** After how many of them an ellipsis stands for the rest; undefined where nothing is left out. */
  elidedAfter?: readonly (number | undefined)[]
  /** Where a row goes on in the next line. */
  columns?: number
}

/** Gathers elements in row-major order; `take` hands over what is ready. JSON as well, where nothing is elided. */
export class NestedText {
  readonly #shown: readonly number[]
  readonly #elidedAfter: readonly (number | undefined)[]
  readonly #columns: number
  /** Elements below one index of each dimension. */
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

  /** The next element. */
  add(element: string): void {
    if (this.#count === 0) {
      this.#open(this.#rank)
      this.#item(element)
    } else {
      const ended = this.#ended()
      // The dimension that goes on; those after it start again.
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

  /** After the last element. An empty tensor has none and is []. */
  end(): void {
    if (this.#count === 0) this.#text += '[]'
    else this.#close(this.#rank)
  }

  /** What has been gathered since the last call. */
  take(): string {
    const text = this.#text
    this.#text = ''
    return text
  }

  /** How many dimensions, counted from the last, have just come to their end. */
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

  /** Between two elements, after `ended` dimensions have closed: rows stand in lines, matrices apart. */
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

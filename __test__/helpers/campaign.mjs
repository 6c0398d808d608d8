// How much of what is tried again and again: all of it where CI is set, and a part elsewhere, so that `npm test` stays short.

/** How often something is done. */
export const rounds = (all, few) => (process.env.CI ? all : few)

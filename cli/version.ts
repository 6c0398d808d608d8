/** The version of this package, inserted by the build. */
declare const PACKAGE_VERSION: string

export const version: string = PACKAGE_VERSION

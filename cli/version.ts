/** The version of this package, which the build fills in. */
declare const PACKAGE_VERSION: string

export const version: string = PACKAGE_VERSION

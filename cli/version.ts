/** The version of this package; the build puts it in the place of this name. */
declare const PACKAGE_VERSION: string

export const version: string = PACKAGE_VERSION

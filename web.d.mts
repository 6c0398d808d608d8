// `ztensor/web` is the package @ztensor/web, which is installed separately.
export * from '@ztensor/web'

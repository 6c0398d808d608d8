// `ztensor/web/convert` is part of the package @ztensor/web, which is installed separately.
export * from '@ztensor/web/convert'

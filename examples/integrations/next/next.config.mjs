export default {
  output: 'standalone',
  outputFileTracingRoot: import.meta.dirname,
  // The addon is loaded where it lies, so the package stays outside the bundle. Tracing copies both.
  serverExternalPackages: ['ztensor'],
  // A path that is made at run time: tracing does not see it.
  outputFileTracingIncludes: { '/rows/[row]': ['./models/**'] },
}

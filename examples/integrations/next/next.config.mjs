export default {
  output: 'standalone',
  outputFileTracingRoot: import.meta.dirname,
  // The addon is loaded from its folder, so the package stays outside the bundle. Tracing copies both.
  serverExternalPackages: ['ztensor'],
  // Routes and files, both as globs: the files that these routes open at run time, which tracing does not see.
  outputFileTracingIncludes: { '/rows/*': ['./models/**'] },
}

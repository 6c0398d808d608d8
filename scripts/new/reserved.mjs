/** Words that cannot name a module of Rust, or would hide a crate that every module uses. */
export const RESERVED = new Set(
  `abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in let loop macro
  match mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe unsized use virtual where
  while yield alloc core std`.split(/\s+/),
)

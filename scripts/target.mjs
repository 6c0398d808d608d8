// The platform that this process runs on, by Rust's name: `x86_64-unknown-linux-gnu`.
import { parseTriple } from '@napi-rs/cli'
import { hostPlatform, manifest } from './platform.mjs'

export const hostTarget = manifest.napi.targets.find((target) => parseTriple(target).platformArchABI === hostPlatform)

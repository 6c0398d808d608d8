/** `true` where both types are the same to the compiler: `any` equals only `any`, and `readonly` counts. */
export type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles only where the claim is `true`. */
export declare function holds<_Claim extends true>(): void

//! Attribute values as JavaScript has them: numbers without types, and bigints.
#![forbid(unsafe_code)]

use ciborium::Value;
use ciborium::value::Integer;

/// Whole numbers up to here are integers in the file.
const MAX_NUMBER: f64 = 9_007_199_254_740_991.0;
/// RFC 8949 §3.4.3: an unsigned and a negative integer of any size.
const POSITIVE_BIGNUM: u64 = 2;
const NEGATIVE_BIGNUM: u64 = 3;

/// Converts a number: whole numbers are integers in the file, except for negative zero.
pub fn number_value(value: f64) -> Value {
    #[allow(clippy::cast_possible_truncation)] // checked to be exact
    if value.fract() == 0.0 && value.abs() <= MAX_NUMBER && !(value == 0.0 && value.is_sign_negative()) {
        return Value::Integer((value as i64).into());
    }
    Value::Float(value)
}

/// Converts a bigint, whose words are little-endian: up to 64 bits to an integer, a larger one to a bignum (RFC 8949 §3.4.3).
pub fn bigint_value(is_negative: bool, words: &[u64]) -> Value {
    let words: Vec<u64> = words.iter().copied().rev().skip_while(|&word| word == 0).collect();
    if let [] | [_] = words[..] {
        let magnitude = i128::from(words.first().copied().unwrap_or(0));
        let signed = if is_negative { -magnitude } else { magnitude };
        if let Ok(integer) = Integer::try_from(signed) {
            return Value::Integer(integer);
        }
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    if is_negative {
        // A negative bignum holds -1 - n.
        for byte in bytes.iter_mut().rev() {
            let (less, borrow) = byte.overflowing_sub(1);
            *byte = less;
            if !borrow {
                break;
            }
        }
    }
    let start = bytes.iter().take_while(|&&byte| byte == 0).count();
    let tag = if is_negative { NEGATIVE_BIGNUM } else { POSITIVE_BIGNUM };
    Value::Tag(tag, Box::new(Value::Bytes(bytes.split_off(start))))
}

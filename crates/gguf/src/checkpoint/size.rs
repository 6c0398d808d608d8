//! `general.size_label`: the number of parameters, as in the names of models.
#![forbid(unsafe_code)]

use ztensor_core::checked::product;

use super::planned::Planned;

/// Returns a label such as `7.2B`, or `8x7.2B` for a mixture of 8 experts: of that, one expert and what all share.
pub fn label(tensors: &[Planned]) -> String {
    let (mut shared, mut expert) = (0_u128, 0_u128);
    let (mut experts, mut stacked) = (0_u128, 0_u128);
    for Planned { name, shape, .. } in tensors {
        let size = u128::from(product(shape).unwrap_or(u64::MAX));
        let from_end = if name.contains(".bias") { 2 } else { 3 };
        let count =
            shape.len().checked_sub(from_end).and_then(|at| shape.get(at)).copied().unwrap_or_default();
        if name.contains("_exps.") && shape.len() >= 3 && count > 0 {
            expert += size / u128::from(count);
            experts += u128::from(count);
            stacked += 1;
        } else {
            shared += size;
        }
    }
    match experts.checked_div(stacked) {
        Some(count) if count > 0 => format!("{count}x{}", rounded(shared + expert)),
        _ => rounded(shared),
    }
}

fn rounded(count: u128) -> String {
    let units = [(1_000_000_000_000, 'T'), (1_000_000_000, 'B'), (1_000_000, 'M')];
    let (unit, suffix) = units.into_iter().find(|&(unit, _)| count > unit).unwrap_or((1000, 'K'));
    #[allow(clippy::cast_precision_loss)]
    let scaled = count as f64 * (1.0 / unit as f64);
    // At least two digits.
    let whole = format!("{}", scaled.round_ties_even());
    let digits = whole.trim_start_matches('0').len();
    format!("{scaled:.*}{suffix}", 2_usize.saturating_sub(digits))
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn labels_have_two_digits() {
        let cases = [
            (0, "0.00K"),
            (999, "1.0K"),
            (1_500, "1.5K"),
            (114_368, "114K"),
            (1_235_814_400, "1.2B"),
            (7_615_616_512, "7.6B"),
            (70_553_706_496, "71B"),
            (671_026_419_200, "671B"),
            (1_026_408_232_448, "1.0T"),
        ];
        for (count, label) in cases {
            assert_eq!(rounded(count), label, "{count}");
        }
    }
}

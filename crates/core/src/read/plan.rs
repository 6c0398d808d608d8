//! Determines the byte ranges that one rank of a tensor-parallel group needs.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result, short};
use crate::inject;
use crate::limits;
use crate::model::glob::Glob;
use crate::model::slice::{TensorSlice, shard};
use crate::model::{Catalog, Span, Tensor};

/// How a rule divides a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// By the second-to-last dimension, or the only one of a vector.
    Column,
    /// By the last dimension; not for vectors.
    Row,
    Dim(usize),
    /// Replicated to every rank.
    Replicate,
}

/// A name pattern and its placement.
#[derive(Clone, Debug)]
pub struct Rule {
    pattern: String,
    names: Glob,
    placement: Placement,
}

impl Rule {
    pub fn new(pattern: &str, placement: Placement) -> Self {
        Self { pattern: pattern.to_owned(), names: Glob::new(pattern), placement }
    }

    fn matches(&self, tensor: Tensor<'_>) -> bool {
        self.names.matches(tensor.name())
    }

    /// Returns whether the rule is for the rest, which may be empty, if it is the last.
    fn is_rest(&self) -> bool {
        !self.pattern.is_empty() && self.pattern.bytes().all(|byte| byte == b'*')
    }
}

/// A rank and the number of ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rank {
    pub rank: u64,
    pub world_size: u64,
}

/// The part of a file that a rank needs.
#[derive(Debug)]
pub struct Plan {
    /// The divided dimension of each tensor; `None` for one that every rank has whole.
    pub dims: Vec<Option<usize>>,
    /// The byte ranges that loading its part reads, in file order and merged if adjacent. An encoded tensor is needed whole, whatever part
    /// of it is wanted.
    pub spans: Vec<Span>,
}

/// Plans all tensors of a file: the first rule whose pattern matches the name applies. Fails with `ZT_INVALID_ARG` for a tensor without a
/// rule, and for a rule without a tensor, unless it is a final `*`.
pub fn plan(catalog: &Catalog, rules: &[Rule], rank: Rank) -> Result<Plan> {
    inject::panic_at("plan");
    let dims = dims(catalog, rules, rank)?;
    let spans = spans(catalog.iter().zip(dims.iter().copied()), rank)?;
    Ok(Plan { dims, spans })
}

/// Maximum number of names that an error lists.
const LISTED: usize = 20;
/// Maximum characters of each.
const NAME: usize = 100;

fn dims(catalog: &Catalog, rules: &[Rule], Rank { rank, world_size }: Rank) -> Result<Vec<Option<usize>>> {
    let mut dims = Vec::with_capacity(catalog.len());
    let mut unmatched = Vec::new();
    let mut missing = 0;
    // Adjacent tensors mostly have the same shape, and one that divides evenly always does.
    let mut divides = None;
    let mut idle = vec![true; rules.len()];
    for tensor in catalog.iter() {
        let found = rules.iter().zip(&mut idle).find(|(rule, _)| rule.matches(tensor));
        let Some((&Rule { placement, .. }, is_idle)) = found else {
            missing += 1;
            if unmatched.len() < LISTED {
                unmatched.push(format!("{:?}", short(tensor.name(), NAME)));
            }
            continue;
        };
        *is_idle = false;
        let dim = dimension(tensor, placement)?;
        if let Some(dim) = dim
            && divides != Some((tensor.shape_id(), dim))
        {
            shard(tensor.shape(), dim, rank, world_size).map_err(|error| error.tensor(tensor.name()))?;
            divides = Some((tensor.shape_id(), dim));
        }
        dims.push(dim);
    }
    if missing == 0 {
        check_used(catalog, rules, &idle)?;
        return Ok(dims);
    }
    let more = missing - unmatched.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let message = format!(
        "no entry of rules matches {}{more}: add one, such as ['*', 'replicate'] at the end",
        unmatched.join(", ")
    );
    Err(Error::new(Code::InvalidArg, message))
}

/// Fails for a rule that is `idle`: a typo would divide a tensor differently without an error.
fn check_used(catalog: &Catalog, rules: &[Rule], idle: &[bool]) -> Result<()> {
    let last = rules.len().saturating_sub(1);
    let mut unused = rules.iter().zip(idle).enumerate();
    let Some((_, (rule, _))) =
        unused.find(|&(at, (rule, &is_idle))| is_idle && !(at == last && rule.is_rest()))
    else {
        return Ok(());
    };
    let pattern = short(&rule.pattern, NAME);
    let why = if catalog.iter().any(|tensor| rule.matches(tensor)) {
        "has no effect: earlier rules match every tensor that it matches"
    } else {
        "matches no tensor"
    };
    Err(Error::new(Code::InvalidArg, format!("rules: {pattern:?} {why}")).about("rules"))
}

/// Returns the dimension that a placement divides.
fn dimension(tensor: Tensor<'_>, placement: Placement) -> Result<Option<usize>> {
    match (placement, tensor.shape().len()) {
        (Placement::Replicate, _) => Ok(None),
        (Placement::Dim(dim), _) => Ok(Some(dim)),
        (Placement::Column | Placement::Row, 0) => {
            let message = format!("tensor {:?} is a scalar: replicate it", short(tensor.name(), NAME));
            Err(Error::new(Code::InvalidArg, message))
        }
        (Placement::Column, rank) => Ok(Some(rank.saturating_sub(2))),
        (Placement::Row, rank) => Ok((rank > 1).then(|| rank - 1)),
    }
}

/// Returns the byte ranges that a rank needs of tensors, each divided along a dimension or whole.
pub fn spans<'c>(
    planned: impl IntoIterator<Item = (Tensor<'c>, Option<usize>)>,
    rank: Rank,
) -> Result<Vec<Span>> {
    let mut spans = Spans::default();
    for (tensor, dim) in planned {
        if tensor.is_unread() {
            let message = "the location of its bytes is unknown";
            let hint = ": open the index without shards: 'none'";
            return Err(Error::new(Code::BadLayout, message).hint("shards", hint).tensor(tensor.name()));
        }
        match dim {
            None => tensor.own_spans().for_each(|span| spans.push(span)),
            Some(dim) => {
                spans.divided(tensor, dim, rank).map_err(|error| error.tensor(tensor.name()))?;
            }
        }
        if spans.all.len() > limits::PLAN_RANGES {
            let message = format!("the plan has more than {} ranges of bytes", limits::PLAN_RANGES);
            return Err(Error::new(Code::Limit, message));
        }
    }
    Ok(Span::joined(spans.all))
}

/// The ranges found to be needed.
#[derive(Default)]
struct Spans {
    all: Vec<Span>,
    /// Caches the slice of the previous tensor by shape, dimension and element size: adjacent tensors are mostly similar.
    slice: Option<((u32, usize, u32), TensorSlice)>,
}

impl Spans {
    /// Adjacent ranges are merged immediately: a file may have a million of them.
    fn push(&mut self, span: Span) {
        match self.all.last_mut() {
            Some(last) if last.file == span.file && last.end() == span.offset => last.length += span.length,
            _ => self.all.push(span),
        }
    }

    fn divided(&mut self, tensor: Tensor<'_>, dim: usize, rank: Rank) -> Result<()> {
        let (Some(data), Some(dtype)) = (tensor.data(), tensor.dtype()) else {
            let message = format!(
                "the layout is {:?}: only dense tensors can be divided; replicate it",
                tensor.layout_name()
            );
            return Err(Error::new(Code::BadLayout, message));
        };
        let key = (tensor.shape_id(), dim, dtype.bits());
        let slice = match self.slice.take() {
            Some((same, slice)) if same == key => slice,
            _ => {
                let ranges = shard(tensor.shape(), dim, rank.rank, rank.world_size)?;
                TensorSlice::new(tensor.shape(), &ranges, dtype.bits())?
            }
        };
        let Some((offset, _)) = data.plain_range() else {
            tensor.own_spans().for_each(|span| self.push(span));
            return Ok(());
        };
        for (start, length) in slice.runs() {
            if self.all.len() > limits::PLAN_RANGES {
                return Ok(());
            }
            self.push(Span { file: data.file(), offset: offset.saturating_add(start), length });
        }
        self.slice = Some((key, slice));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    const RANK: Rank = Rank { rank: 1, world_size: 2 };

    #[test]
    fn adjacent_ranges_are_merged_and_the_first_matching_rule_applies() {
        let catalog = fixtures::row(1000, 16);
        let rule = Rule::new;
        let whole = plan(&catalog, &[rule("*", Placement::Replicate)], RANK).unwrap();
        assert_eq!(whole.spans, [Span { file: 0, offset: 0, length: 16_000 }]);
        assert!(whole.dims.iter().all(Option::is_none));
        let rules = [rule("7", Placement::Replicate), rule("*", Placement::Column)];
        let divided = plan(&catalog, &rules, RANK).unwrap();
        assert_eq!(divided.dims[7], None);
        assert_eq!(divided.dims[8], Some(0));
        assert_eq!(divided.spans[0], Span { file: 0, offset: 8, length: 8 });
        assert_eq!(divided.spans.len(), 999);
    }

    #[test]
    fn tensors_that_match_no_rule_are_listed() {
        let error = plan(&fixtures::row(1000, 16), &[Rule::new("1*", Placement::Row)], RANK).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArg);
        assert!(error.message().starts_with("no entry of rules matches \"0\", \"2\", "), "{error}");
        assert!(error.message().contains("and 869 more"), "{error}");
    }

    #[test]
    fn a_rule_without_a_tensor_is_an_error_unless_it_is_for_the_rest() {
        let catalog = fixtures::row(20, 16);
        let rules = |patterns: &[&str]| -> Vec<Rule> {
            patterns.iter().map(|pattern| Rule::new(pattern, Placement::Replicate)).collect()
        };
        for used in [&["1*", "?"][..], &["1*", "?", "*"], &["*"]] {
            assert!(plan(&catalog, &rules(used), RANK).is_ok(), "{used:?}");
        }
        for (patterns, message) in [
            (&["x*", "*"][..], "rules: \"x*\" matches no tensor"),
            (
                &["1*", "10", "*"],
                "rules: \"10\" has no effect: earlier rules match every tensor that it matches",
            ),
            (&["*", "1*"], "rules: \"1*\" has no effect"),
            (&["*", "*"][..1], ""),
        ] {
            let planned = plan(&catalog, &rules(patterns), RANK);
            let found = planned.err().map(|error| error.message().to_owned()).unwrap_or_default();
            assert!(
                found.starts_with(message) && found.is_empty() == message.is_empty(),
                "{patterns:?}: {found}"
            );
        }
    }
}

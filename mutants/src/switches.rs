//! Finds the expression that each mutant changes, and puts the change behind a switch beside what was there.

use std::collections::HashMap;

use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::Mutant;
use crate::edits::{Edit, Piece, render};

/// The text with the mutants in it, and the numbers of those that it holds.
pub fn build_in(source: &str, mutants: &[Mutant]) -> (String, Vec<u32>) {
    let tree = syn::parse_file(source).expect("Rust");
    let mut switches = Switches::new(source, mutants);
    switches.visit_file(&tree);
    let mut edits = switches.edits;
    edits.sort_by_key(|edit| (edit.start, std::cmp::Reverse(edit.end)));
    (render(source, 0, source.len(), &edits), switches.built)
}

struct Switches<'a> {
    source: &'a str,
    lines: Vec<usize>,
    mutants: HashMap<(&'a str, usize), Vec<&'a Mutant>>,
    edits: Vec<Edit>,
    built: Vec<u32>,
    /// How many constants, whose values are computed by the compiler, surround us.
    constant: usize,
}

fn on(mutant: &Mutant) -> String {
    format!("crate::mutant::on({})", mutant.id)
}

impl<'a> Switches<'a> {
    fn new(source: &'a str, all: &'a [Mutant]) -> Self {
        let lines = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut found = Self {
            source,
            lines,
            mutants: HashMap::new(),
            edits: Vec::new(),
            built: Vec::new(),
            constant: 0,
        };
        for mutant in all {
            let start = found.offset(mutant.start.0, mutant.start.1 - 1);
            found.mutants.entry((mutant.genre.as_str(), start)).or_default().push(mutant);
        }
        found
    }

    /// The byte at a line, from 1 on, and a column in characters, from 0 on.
    fn offset(&self, line: usize, column: usize) -> usize {
        let start = self.lines[line - 1];
        self.source[start..].char_indices().nth(column).map_or(self.source.len(), |(at, _)| start + at)
    }

    fn range(&self, span: Span) -> (usize, usize) {
        let at = |LineColumn { line, column }| self.offset(line, column);
        (at(span.start()), at(span.end()))
    }

    /// The mutants of a genre that begin at a byte, unless the compiler computes what stands there.
    fn take(&mut self, genre: &'a str, start: usize) -> Vec<&'a Mutant> {
        if self.constant > 0 {
            return Vec::new();
        }
        let taken = self.mutants.remove(&(genre, start)).unwrap_or_default();
        self.built.extend(taken.iter().map(|mutant| mutant.id));
        taken
    }

    /// `start..end` becomes the changed ones behind their switches, else what was there.
    fn choose(&mut self, (start, end): (usize, usize), changed: Vec<(String, Vec<Piece>)>) {
        let mut pieces = vec![Piece::New("(".to_owned())];
        for (switch, change) in changed {
            pieces.push(Piece::New(format!("if {switch} {{ ")));
            pieces.extend(change);
            pieces.push(Piece::New(" } else ".to_owned()));
        }
        pieces.push(Piece::New("{ ".to_owned()));
        pieces.push(Piece::Changed(start, end));
        pieces.push(Piece::New(" })".to_owned()));
        self.edits.push(Edit { start, end, pieces });
    }

    fn body(&mut self, block: &syn::Block) {
        let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) else { return };
        let (start, end) = (self.range(first.span()).0, self.range(last.span()).1);
        let fits: Vec<_> = self.mutants.get(&("FnValue", start)).cloned().unwrap_or_default();
        if fits.iter().any(|mutant| self.offset(mutant.end.0, mutant.end.1 - 1) != end) {
            return;
        }
        let mut switches = String::new();
        for mutant in self.take("FnValue", start) {
            switches += &format!("if {} {{ return {}; }} ", on(mutant), mutant.replacement);
        }
        if !switches.is_empty() {
            self.edits.push(Edit { start, end: start, pieces: vec![Piece::New(switches)] });
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let constant = usize::from(signature.constness.is_some());
        self.constant += constant;
        self.body(block);
        self.visit_block(block);
        self.constant -= constant;
    }
}

impl Visit<'_> for Switches<'_> {
    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, _: &syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &syn::ItemEnum) {}
    fn visit_type(&mut self, _: &syn::Type) {}
    fn visit_pat(&mut self, _: &syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &syn::GenericArgument) {}

    fn visit_expr_const(&mut self, _: &syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, repeat: &syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_binary(&mut self, binary: &syn::ExprBinary) {
        let (op_start, op_end) = self.range(binary.op.span());
        let (start, end) = (self.range(binary.left.span()).0, self.range(binary.right.span()).1);
        let chain = matches!(binary.op, syn::BinOp::And(_))
            && [&*binary.left, &*binary.right].into_iter().any(holds_let);
        let mutants = if chain { Vec::new() } else { self.take("BinaryOperator", op_start) };
        if !mutants.is_empty() {
            let changed = mutants.into_iter().map(|mutant| {
                let change = vec![
                    Piece::Old(start, op_start),
                    Piece::New(mutant.replacement.clone()),
                    Piece::Old(op_end, end),
                ];
                (on(mutant), change)
            });
            let changed = changed.collect();
            self.choose((start, end), changed);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &syn::ExprUnary) {
        let (start, end) = self.range(unary.span());
        let mutants = self.take("UnaryOperator", start);
        if !mutants.is_empty() {
            let inner = self.range(unary.expr.span());
            let changed =
                mutants.into_iter().map(|mutant| (on(mutant), vec![Piece::Old(inner.0, inner.1)])).collect();
            self.choose((start, end), changed);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &syn::Arm) {
        let start = self.range(arm.span()).0;
        let mut off = String::new();
        for mutant in self.take("MatchArm", start) {
            off += &format!("!{} && ", on(mutant));
        }
        match &arm.guard {
            Some((_, guard)) => {
                let (from, to) = self.range(guard.span());
                let mut pieces = vec![Piece::New(off.clone())];
                let mut close = String::new();
                for mutant in self.take("MatchArmGuard", from) {
                    let (switch, joint) = if mutant.replacement == "true" {
                        (on(mutant), "||")
                    } else {
                        (format!("!{}", on(mutant)), "&&")
                    };
                    pieces.push(Piece::New(format!("({switch} {joint} ")));
                    close.push(')');
                }
                if pieces.len() > 1 || !off.is_empty() {
                    pieces.push(Piece::New("(".to_owned()));
                    pieces.push(Piece::Changed(from, to));
                    pieces.push(Piece::New(format!("){close}")));
                    self.edits.push(Edit { start: from, end: to, pieces });
                }
            }
            None if !off.is_empty() => {
                let at = self.range(arm.pat.span()).1;
                let guard = format!(" if {}true", off);
                self.edits.push(Edit { start: at, end: at, pieces: vec![Piece::New(guard)] });
            }
            None => {}
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &syn::ExprStruct) {
        if let Some(rest) = &expression.rest {
            let rest = self.range(rest.span());
            for field in &expression.fields {
                let start = self.range(field.span()).0;
                for mutant in self.take("StructField", start) {
                    let syn::Member::Named(name) = &field.member else { continue };
                    let (from, to) = self.range(field.expr.span());
                    let label = if field.colon_token.is_none() { format!("{name}: ") } else { String::new() };
                    let pieces = vec![
                        Piece::New(format!("{label}(if {} {{ (", on(mutant))),
                        Piece::Old(rest.0, rest.1),
                        Piece::New(format!(").{name} }} else {{ ")),
                        Piece::Changed(from, to),
                        Piece::New(" })".to_owned()),
                    ];
                    self.edits.push(Edit { start: from, end: to, pieces });
                }
            }
        }
        visit::visit_expr_struct(self, expression);
    }
}

/// Whether a condition binds names: it cannot stand in parentheses.
fn holds_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => holds_let(&binary.left) || holds_let(&binary.right),
        _ => false,
    }
}

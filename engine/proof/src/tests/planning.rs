//! What planning lists is what its steps say, and the court plans nothing twice.

use super::programs::Net;
use crate::court::{Court, KEPT_STEPS_MAX, costs, weight};
use crate::plan::{self, Form, Hidden, PLANNING_STEPS_MAX, Plan, Sizes, Spread, Table, Values};
use crate::plan::{CUTS_MAX, ProductKind, Tree, steps};
use arbtest::arbitrary::{Result, Unstructured};
use std::sync::Arc;
use tg_tensor::program::{Input, Label, Operand, Operation, Output, Parts, Primitive, Program};
use tg_tensor::program::{Rescale, Shape, Spec, ValueId};
use tg_tensor::sample;
use tg_types::{Encode as _, List, ResultVerifier as _};

/// All that a plan lists.
fn listed(plan: &Plan) -> u64 {
    let spread = |spread: &Spread| match spread {
        Spread::One | Spread::Inferences => 1,
        Spread::Columns(factors) | Spread::Rows(factors) => factors.len(),
    };
    // Factors are shared by the terms of one form.
    let form = |form: &Form| {
        let shared = form.terms.iter().map(|term| spread(&term.spread)).max().unwrap_or(0);
        form.terms.len() + form.constant.len() + shared
    };
    let written = |table: &Table| match table {
        Table::Entries { values: Values::Written(values), .. } => values.len(),
        Table::Pairs { values, .. } => values.len(),
        Table::Entries { .. }
        | Table::Range { .. }
        | Table::Clamp { .. }
        | Table::Blocks { .. }
        | Table::Held { .. } => 1,
    };
    let groups = plan.groups.iter().flat_map(|group| group.forms()).map(form);
    let products = plan.products.iter().map(|product| match &product.kind {
        ProductKind::Times(times) => times.factors.iter().map(form).sum(),
        ProductKind::Max(shape) => shape.taps.len() + 1,
        ProductKind::Linear(_) | ProductKind::MatMul(_) | ProductKind::Elements { .. } => 1,
    });
    let equations = plan.equations.iter().map(|equation| form(&equation.rest));
    let opened = plan.opened.iter().flatten().map(|opened| opened.columns.len());
    let pieces = plan.pieces.iter().map(Vec::len);
    let all = groups.chain(products).chain(equations).chain(opened).chain(pieces);
    let all = all.chain(plan.tables.iter().map(written));
    (all.sum::<usize>() + plan.columns.len() + plan.checks.len() + plan.holders.len()) as u64
}

/// How many plans were possible, and how many of them are of divided runs.
#[derive(Clone, Copy, Debug, Default)]
struct Planned {
    plans: u32,
    divided: u32,
}

impl Planned {
    /// Plans a program in all modes, and for several inferences with runs of any size divided.
    fn check(&mut self, program: &Program) {
        let program = Arc::new(program.clone());
        let all = Hidden { run: true, inputs: true, outputs: true };
        let always = Sizes { divided_bits: 0, ..Sizes::USUAL };
        let plain = Hidden::default();
        let ways = [(plain, 1, Sizes::USUAL), (all, 1, Sizes::USUAL), (plain, 5, always)];
        for (hidden, batch, sizes) in ways {
            let Ok(plan) = plan::build(&program, batch, None, hidden, &sizes) else { continue };
            // Columns of several inferences may be cut, which nobody plans for a stranger.
            let pieces = if batch == 1 { 1 } else { CUTS_MAX as u64 };
            let (listed, most) = (listed(&plan), steps(&program) * pieces);
            assert!(listed <= most, "{listed} are listed in {most} steps: {program:#?}");
            self.plans += 1;
            self.divided += u32::from(!plan.pieces[Tree::Rest as usize].is_empty());
        }
    }
}

#[test]
fn plans_of_all_nets_list_no_more_than_their_steps() {
    let mut planned = Planned::default();
    Net::ALL.into_iter().for_each(|net| planned.check(net.model().program()));
    assert!(planned.plans >= 15 && planned.divided >= 2, "{planned:?}");
}

#[test]
fn prop_plans_list_no_more_than_their_steps() {
    let planned = std::cell::Cell::new(Planned::default());
    let check = |u: &mut Unstructured<'_>| -> Result<()> {
        let mut all = planned.get();
        all.check(sample::model(u)?.program());
        planned.set(all);
        Ok(())
    };
    arbtest::arbtest(check).budget_ms(2_000);
    let planned = planned.get();
    assert!(planned.plans > 0, "{planned:?}"); // that some are divided is held by the nets above
}

/// Tables of so many entries each, one after another.
fn tables(count: u32, numbers: i32) -> Program {
    let spec = Spec { len: 1, lo: 0, hi: numbers - 1 };
    let (label, shape) = (|| Label::lossy("x"), || Shape::new(vec![1]).expect("short"));
    let input = Input { label: label(), shape: shape(), spec, scaling: None };
    let operation = |number: u32| {
        let mut entries = vec![0_i16; numbers as usize];
        // They differ at the end only.
        entries[numbers as usize - 1 - number as usize] = 1;
        let entries = List::new(entries).expect("as many as a table may have");
        let primitive = Primitive::Table { x: ValueId { number }, entries };
        Operation { label: label(), spec, primitive }
    };
    let value = ValueId { number: count };
    let outputs = vec![Output { label: label(), shape: shape(), value, scaling: None }];
    let operations = (0..count).map(operation).collect();
    Program::new(Parts { inputs: vec![input], operations, outputs, ..Parts::default() })
        .expect("a program")
}

#[test]
fn programs_with_more_steps_than_the_bound_are_not_planned() {
    let (few, many) = (tables(16, 32_768), tables(40, 32_768));
    assert!(steps(&few) <= PLANNING_STEPS_MAX && PLANNING_STEPS_MAX < steps(&many));
    assert!(costs(&few).proof.is_some());
    assert_eq!(costs(&many).proof, None);
    let many = Arc::new(many);
    let planned = plan::build(&many, 1, None, Hidden::default(), &Sizes::USUAL);
    assert!(planned.is_ok(), "it is refused for its steps alone");
}

/// Goal: what follows from a program is worked out once, and not remembered beyond a bound. Method:
/// ask for costs of programs again and again.
#[test]
fn court_remembers_plans_up_to_a_bound() {
    let court = Court::default();
    let ask = |program: &Program| court.costs(&program.to_bytes()).proof;
    let first = tables(2, 20_000);
    assert_eq!(ask(&first), costs(&first).proof);
    assert_eq!(ask(&first), costs(&first).proof);
    assert_eq!(court.plans().programs(), [first.id()]);
    let programs: Vec<Program> = (5..14).map(|more| tables(10 + more, 20_000)).collect();
    for program in &programs {
        assert_eq!(ask(program), costs(program).proof);
    }
    let kept = court.plans().programs();
    assert!(!kept.contains(&first.id()), "the oldest is forgotten");
    assert_eq!(kept.last(), programs.last().map(Program::id).as_ref());
    let of = |id: &tg_types::Hash32| {
        programs.iter().find(|program| program.id() == *id).map_or(0, weight)
    };
    assert!(kept.iter().map(of).sum::<u64>() <= KEPT_STEPS_MAX);
    assert!(kept.len() > 1);
}

/// Products of so many kinds, each of the one before with the input: hardly any can share a table.
fn products(count: u32) -> Program {
    let spec = |number: u32| Spec { len: 64, lo: -128, hi: 126 - (number % 40) as i32 };
    let (label, shape) = (|| Label::lossy("x"), || Shape::new(vec![64]).expect("short"));
    let input = Input { label: label(), shape: shape(), spec: spec(0), scaling: None };
    let operation = |number: u32| {
        let one = || List::new(vec![1]).expect("one");
        let read = |number| Operand { value: ValueId { number }, strides: one() };
        let multipliers = List::new(vec![100 + 3 * number as i32]).expect("one");
        let rescale =
            Rescale { pre_shift: 0, multipliers, shift: 14 + (number % 4) as u8, zero: 0 };
        let (a, b, sides) = (read(0), read(number), List::new(vec![64]).expect("one"));
        let primitive = Primitive::Product { sides, a, b, offset_a: 0, offset_b: 0, rescale };
        Operation { label: label(), spec: spec(number), primitive }
    };
    let value = ValueId { number: count };
    let outputs = vec![Output { label: label(), shape: shape(), value, scaling: None }];
    let operations = (0..count).map(operation).collect();
    Program::new(Parts { inputs: vec![input], operations, outputs, ..Parts::default() })
        .expect("a program")
}

/// Goal: planning of large programs that can go on record stays within its bound. Method: count the
/// steps of many tables and of many products, and plan both.
#[test]
fn large_programs_are_planned_within_the_bound() {
    for program in [tables(300, 400), products(500)] {
        assert!(steps(&program) <= PLANNING_STEPS_MAX);
        assert!(Court::default().costs(&program.to_bytes()).zk.is_some());
    }
}

use super::*;
use crate::gateways::model::provider::ModelTable;

fn call(text_bytes: usize, max_tokens: u32) -> ModelCall {
    ModelCall {
        number: 1,
        model: None,
        system: "x".repeat(text_bytes),
        messages: Vec::new(),
        tools: Vec::new(),
        max_tokens,
        packing: Vec::new(),
    }
}

fn tokens(limit: u64) -> Arc<ModelBudget> {
    ModelBudget::new(BudgetLimits { tokens: Some(limit), ..BudgetLimits::default() }, Spent::default())
}

fn price() -> Option<Price> {
    ModelTable::with("").unwrap().price("openai/gpt-4o")
}

#[test]
fn calls_at_once_see_each_others_reservations() {
    let budget = tokens(5000);
    // 1,000 tokens of input and a form of 16 each.
    let first = budget.reserve(&call(2000, 1000), None).unwrap();
    let second = budget.reserve(&call(2000, 1000), None).unwrap();
    let refused = budget.reserve(&call(2000, 1000), None).unwrap_err();
    assert_eq!(refused.code, ModelFailureCode::Budget);
    assert!(refused.message.contains("tokens"), "{}", refused.message);
    drop(first);
    assert!(budget.reserve(&call(2000, 1000), None).is_ok(), "what was never sent is given back");
    drop(second);
    assert_eq!(budget.spent(), Spent::default());
}

#[test]
fn the_longest_answer_is_cut_to_what_is_left() {
    let budget = tokens(2000);
    let reservation = budget.reserve(&call(2000, 8000), None).unwrap();
    assert_eq!(reservation.max_tokens(), 2000 - 1016);
    drop(reservation);
    let most = Money::from_usd(0.01);
    let budget =
        ModelBudget::new(BudgetLimits { money: Some(most), ..BudgetLimits::default() }, Spent::default());
    let reservation = budget.reserve(&call(0, 8000), price()).unwrap();
    // A cent less 16 tokens of input at 2.50 pays for 996 tokens at 10.00.
    assert_eq!(reservation.max_tokens(), 996);
    assert_eq!(
        budget.reserve(&call(0, 8000), price()).unwrap_err().message,
        "the job's budget of money is used up"
    );
}

#[test]
fn what_was_used_is_charged_and_the_rest_given_back() {
    let budget = tokens(10_000);
    let mut reservation = budget.reserve(&call(2000, 4000), price()).unwrap();
    reservation.sent();
    let usage = ModelUsage { input: 400, output: 100, ..ModelUsage::default() };
    assert_eq!(reservation.answered(usage).0, usage);
    drop(reservation);
    let spent = budget.spent();
    assert_eq!((spent.steps, spent.tokens()), (1, 500));
    assert_eq!(spent.money, Money::from_usd(0.002));
}

#[test]
fn a_call_that_was_cut_off_is_charged_by_what_is_known() {
    let budget = tokens(10_000);
    let mut reservation = budget.reserve(&call(2000, 4000), None).unwrap();
    reservation.sent();
    reservation.received(20);
    drop(reservation);
    assert_eq!(budget.spent().tokens(), 1016 + 10);

    let mut reservation = budget.reserve(&call(2000, 1000), None).unwrap();
    reservation.sent();
    reservation.received(20);
    reservation.failed(ModelFailureCode::Unavailable);
    drop(reservation);
    assert_eq!(budget.spent().tokens(), 2 * 1026, "words that came before a failure count");
}

#[test]
fn a_server_that_does_not_count_is_charged_by_the_estimate() {
    let budget = tokens(10_000);
    let mut reservation = budget.reserve(&call(2000, 4000), None).unwrap();
    reservation.sent();
    reservation.received(100);
    let (usage, money) = reservation.answered(ModelUsage::default());
    assert_eq!((usage.input, usage.output, money), (1016, 50, None));
}

#[test]
fn failures_cost_a_step_only_if_the_call_was_at_fault() {
    let limits = BudgetLimits { steps: Some(2), ..BudgetLimits::default() };
    let budget = ModelBudget::new(limits, Spent { steps: 1, ..Spent::default() });
    for (code, steps) in [(ModelFailureCode::Unavailable, 1), (ModelFailureCode::Rejected, 2)] {
        let mut reservation = budget.reserve(&call(10, 10), None).unwrap();
        reservation.sent();
        reservation.failed(code);
        drop(reservation);
        assert_eq!(budget.spent().steps, steps, "{code:?}");
    }
    assert!(budget.reserve(&call(10, 10), None).unwrap_err().message.contains("steps"));
}

#[test]
fn a_hostile_length_of_answer_overflows_nothing() {
    let limits = BudgetLimits { steps: None, tokens: Some(u64::MAX), money: Some(Money::from_usd(1e300)) };
    let budget = ModelBudget::new(limits, Spent::default());
    let _first = budget.reserve(&call(10, u32::MAX), price()).unwrap();
    let _second = budget.reserve(&call(10, u32::MAX), price()).unwrap();
}

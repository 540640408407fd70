//! The budget of a job for models: reserved before a call, charged after it.
//!
//! Concurrent calls see each other's reservations, so that together they can't exceed the budget. A reservation is the
//! highest possible cost: input by an estimate that errs high, output at the longest answer, which is cut to the rest of the
//! budget. No I/O: the store keeps the value of [`ModelBudget::spent`].

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::{ModelCall, ModelFailure, ModelFailureCode, ModelMessage, ModelPart, ModelUsage};

use super::provider::{Money, Price};

/// The shortest answer, in tokens, for which a call is made.
const MIN_ANSWER_TOKENS: u64 = 256;
/// Bytes of text for which one token is reserved. English has three to four bytes per token, some languages have two.
const BYTES_PER_TOKEN: u64 = 2;
/// Tokens of a picture: the highest count of the known providers.
const PICTURE_TOKENS: u64 = 5000;
/// Tokens around each message.
const MESSAGE_TOKENS: u64 = 16;

/// Limits of a job's spending; none means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BudgetLimits {
    /// Number of model calls.
    pub(crate) steps: Option<u64>,
    /// Tokens of input and output together.
    pub(crate) tokens: Option<u64>,
    pub(crate) money: Option<Money>,
}

impl BudgetLimits {
    /// Returns the tokens of output that the remaining money pays for, after the input.
    fn affordable(self, taken: Spent, input: u64, price: Option<Price>) -> u64 {
        let (Some(limit), Some(price)) = (self.money, price) else { return u64::MAX };
        let usage = ModelUsage { input, ..ModelUsage::default() };
        let for_input = price.dearest_input().of(&usage);
        let left = limit.minus(taken.money);
        if left < for_input { 0 } else { left.minus(for_input).divided_by(price.output()) }
    }
}

/// Spending of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Calls that a provider answered, or rejected for their content.
    pub(crate) steps: u64,
    /// Tokens of input, including those from the provider's cache.
    pub(crate) input: u64,
    /// Tokens of output, as the provider counts them.
    pub(crate) output: u64,
    /// Money, for models with a known price.
    pub(crate) money: Money,
}

impl Spent {
    /// Returns the tokens of input and output together.
    pub(crate) fn tokens(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            money: self.money.plus(other.money),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_sub(other.steps),
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            money: self.money.minus(other.money),
        }
    }
}

#[derive(Debug, Default)]
struct BudgetState {
    limits: BudgetLimits,
    spent: Spent,
    reserved: Spent,
}

/// The budget of one job.
#[derive(Debug)]
pub(crate) struct ModelBudget {
    state: Mutex<BudgetState>,
}

impl ModelBudget {
    /// Makes a budget of which `spent` is already used.
    pub(crate) fn new(limits: BudgetLimits, spent: Spent) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(BudgetState { limits, spent, reserved: Spent::default() }) })
    }

    /// Replaces the limits. Reservations and spending stay, so a lower limit stops only later calls.
    pub(crate) fn change(&self, limits: BudgetLimits) {
        self.state().limits = limits;
    }

    /// Returns the charged spending, without reservations.
    pub(crate) fn spent(&self) -> Spent {
        self.state().spent
    }

    /// Reserves the highest possible cost of a call, or reports the exhausted limit.
    pub(super) fn reserve(
        self: &Arc<Self>,
        call: &ModelCall,
        price: Option<Price>,
    ) -> Result<Reservation, ModelFailure> {
        let input = estimate(call);
        let mut state = self.state();
        let (limits, taken) = (state.limits, state.spent.plus(state.reserved));
        if limits.steps.is_some_and(|limit| taken.steps >= limit) {
            return Err(exhausted("steps"));
        }
        let asked = u64::from(call.max_tokens);
        let tokens_left = limits.tokens.map_or(u64::MAX, |limit| limit.saturating_sub(taken.tokens()));
        let by_tokens = tokens_left.saturating_sub(input);
        let output = asked.min(by_tokens).min(limits.affordable(taken, input, price));
        if output < asked.min(MIN_ANSWER_TOKENS) {
            return Err(exhausted(if by_tokens < asked.min(MIN_ANSWER_TOKENS) { "tokens" } else { "money" }));
        }
        let most = cost(
            &ModelUsage { input, output, ..ModelUsage::default() },
            price.map(|price| price.dearest_input()),
        );
        state.reserved = state.reserved.plus(most);
        drop(state);
        Ok(Reservation {
            budget: Arc::clone(self),
            reserved: most,
            input,
            output,
            price,
            progress: CallProgress::Unsent,
        })
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        // No holder of the lock can panic while the state is inconsistent.
        self.state.lock()
    }
}

/// Progress of a call, as far as it is known.
#[derive(Debug, Clone, Copy)]
enum CallProgress {
    /// No provider has accepted it.
    Unsent,
    /// A provider may be working on it. `output` is an estimate of the received tokens.
    Sent { output: u64 },
    /// The provider rejected its content.
    Rejected,
    /// The provider answered it.
    Answered(ModelUsage),
}

/// The reservation of one call. Dropping it charges the call by its progress: a call that was cut off costs the input and the
/// received output, even if the provider reported no usage.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<ModelBudget>,
    reserved: Spent,
    input: u64,
    output: u64,
    price: Option<Price>,
    progress: CallProgress,
}

impl Reservation {
    /// Returns the longest answer that the reservation pays for.
    pub(super) fn max_tokens(&self) -> u32 {
        u32::try_from(self.output).unwrap_or(u32::MAX)
    }

    /// Marks the call as sent.
    pub(super) fn sent(&mut self) {
        self.progress = CallProgress::Sent { output: 0 };
    }

    /// Counts a received part of the answer.
    pub(super) fn received(&mut self, bytes: usize) {
        if let CallProgress::Sent { output } = &mut self.progress {
            *output = output.saturating_add((bytes as u64).div_ceil(BYTES_PER_TOKEN));
        }
    }

    /// Marks the call as failed. It costs nothing if no provider accepted it, and a step if its content was rejected.
    pub(super) fn failed(&mut self, code: ModelFailureCode) {
        self.progress = match (code, self.progress) {
            (ModelFailureCode::Rejected | ModelFailureCode::ContextTooLong, _) => CallProgress::Rejected,
            // The provider charges for text that it sent before the failure.
            (_, CallProgress::Sent { output: 1.. }) => self.progress,
            _ => CallProgress::Unsent,
        };
    }

    /// Marks the call as answered. Returns usage and cost; for servers that report no usage, an estimate.
    pub(super) fn answered(&mut self, usage: ModelUsage) -> (ModelUsage, Option<Money>) {
        let counted = usage.input > 0 || usage.output > 0;
        let usage = if counted { usage } else { self.estimated_usage() };
        self.progress = CallProgress::Answered(usage);
        (usage, self.price.map(|price| price.of(&usage)))
    }

    fn estimated_usage(&self) -> ModelUsage {
        let output = match self.progress {
            CallProgress::Sent { output } => output,
            _ => 0,
        };
        ModelUsage { input: self.input, output, ..ModelUsage::default() }
    }

    fn charge(&self) -> Spent {
        match self.progress {
            CallProgress::Unsent => Spent::default(),
            CallProgress::Rejected => Spent { steps: 1, ..Spent::default() },
            CallProgress::Sent { .. } => cost(&self.estimated_usage(), self.price),
            CallProgress::Answered(usage) => cost(&usage, self.price),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let charge = self.charge();
        // One lock for both: between them, another call would see the cost neither as reserved nor as spent.
        let mut state = self.budget.state();
        state.reserved = state.reserved.minus(self.reserved);
        state.spent = state.spent.plus(charge);
    }
}

fn cost(usage: &ModelUsage, price: Option<Price>) -> Spent {
    Spent {
        steps: 1,
        input: usage.input,
        output: usage.output,
        money: price.map_or(Money::default(), |price| price.of(usage)),
    }
}

fn exhausted(what: &str) -> ModelFailure {
    ModelFailure { code: ModelFailureCode::Budget, message: format!("the job's budget of {what} is used up") }
}

/// Estimates the tokens of a call's input; errs high.
fn estimate(call: &ModelCall) -> u64 {
    let mut bytes = call.system.len();
    let mut pictures = 0u64;
    let mut add = |parts: &[ModelPart]| {
        let mut sum = 0;
        for part in parts {
            match part {
                ModelPart::Text { text } => sum += text.len(),
                ModelPart::Png { .. } => pictures += 1,
            }
        }
        sum
    };
    for message in &call.messages {
        bytes += match message {
            ModelMessage::User { parts } => add(parts),
            ModelMessage::Assistant { text, calls } => {
                text.len() + calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
            }
            ModelMessage::Tools { results } => results.iter().map(|result| add(&result.parts)).sum(),
        };
    }
    for tool in &call.tools {
        bytes += tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
    }
    let messages = (call.messages.len() + call.tools.len() + 1) as u64;
    (bytes as u64).div_ceil(BYTES_PER_TOKEN) + pictures * PICTURE_TOKENS + messages * MESSAGE_TOKENS
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;

//! What a job may spend on models, and what it has spent: reserved before a call, settled after it.
//!
//! Calls at the same time see each other's reservations, so that together they can't exceed what one alone could not. A call
//! is reserved at its dearest: input by an estimate that errs high, output at the longest answer asked for, which is cut to
//! what is left. Pure: the store keeps what [`Budget::spent`] says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandyard_protocol::{ModelCall, ModelFailure, ModelFailureCode, ModelMessage, ModelPart, ModelUsage};

use super::table::{Money, Price};

/// An answer of fewer tokens is not worth asking for.
const SHORTEST_ANSWER: u64 = 256;
/// Bytes for which one token is reserved. Text has three to four to a token; languages far from English have two.
const BYTES_PER_TOKEN: u64 = 2;
/// What a picture takes at most with the providers we know, in tokens.
const PICTURE_TOKENS: u64 = 5000;
/// What the form around a message takes.
const MESSAGE_TOKENS: u64 = 16;

/// What a job may spend; what is not named has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BudgetLimits {
    /// Calls of a model.
    pub(crate) steps: Option<u64>,
    /// Tokens, read and written.
    pub(crate) tokens: Option<u64>,
    /// Money.
    pub(crate) money: Option<Money>,
}

impl BudgetLimits {
    /// Tokens of output that the money left pays for, after the input.
    fn affordable(self, taken: Spent, input: u64, price: Option<Price>) -> u64 {
        let (Some(limit), Some(price)) = (self.money, price) else { return u64::MAX };
        let usage = ModelUsage { input, ..ModelUsage::default() };
        let for_input = price.dearest_input().of(&usage);
        let left = limit.minus(taken.money);
        if left < for_input { 0 } else { left.minus(for_input).divided_by(price.output()) }
    }
}

/// What a job has spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Calls that a provider answered, or rejected for what was in them.
    pub(crate) steps: u64,
    /// Tokens read.
    pub(crate) input: u64,
    /// Tokens written.
    pub(crate) output: u64,
    /// Money, as far as the models' prices are known.
    pub(crate) money: Money,
}

impl Spent {
    /// Tokens, read and written.
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
struct Account {
    limits: BudgetLimits,
    spent: Spent,
    reserved: Spent,
}

/// One job's account.
#[derive(Debug)]
pub(crate) struct Budget {
    account: Mutex<Account>,
}

impl Budget {
    /// An account that has `spent` so much before.
    pub(crate) fn new(limits: BudgetLimits, spent: Spent) -> Arc<Self> {
        Arc::new(Self { account: Mutex::new(Account { limits, spent, reserved: Spent::default() }) })
    }

    /// Other limits from now on.
    pub(crate) fn change(&self, limits: BudgetLimits) {
        self.account().limits = limits;
    }

    /// What is settled.
    pub(crate) fn spent(&self) -> Spent {
        self.account().spent
    }

    /// Sets aside what a call may take at most, or says which limit is in its way.
    pub(super) fn reserve(
        self: &Arc<Self>,
        call: &ModelCall,
        price: Option<Price>,
    ) -> Result<Reservation, ModelFailure> {
        let input = estimate(call);
        let mut account = self.account();
        let (limits, taken) = (account.limits, account.spent.plus(account.reserved));
        if limits.steps.is_some_and(|limit| taken.steps >= limit) {
            return Err(refusal("steps"));
        }
        let asked = u64::from(call.max_tokens);
        let tokens_left = limits.tokens.map_or(u64::MAX, |limit| limit.saturating_sub(taken.tokens()));
        let by_tokens = tokens_left.saturating_sub(input);
        let output = asked.min(by_tokens).min(limits.affordable(taken, input, price));
        if output < asked.min(SHORTEST_ANSWER) {
            return Err(refusal(if by_tokens < asked.min(SHORTEST_ANSWER) { "tokens" } else { "money" }));
        }
        let most = cost(
            &ModelUsage { input, output, ..ModelUsage::default() },
            price.map(|price| price.dearest_input()),
        );
        account.reserved = account.reserved.plus(most);
        drop(account);
        Ok(Reservation {
            budget: Arc::clone(self),
            reserved: most,
            input,
            output,
            price,
            outcome: Outcome::Unsent,
        })
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        // Nothing that holds the lock can panic half way.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a call, as far as is known.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// No provider has taken it on.
    Unsent,
    /// A provider may be working on it; so much came back.
    Sent { output: u64 },
    /// The provider refused it for what is in it.
    Rejected,
    /// It was answered.
    Answered(ModelUsage),
}

/// What is set aside for one call. When it is dropped, what is known of the call is charged: a call that was cut off costs
/// what was sent and what came back, whether or not the provider said so.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<Budget>,
    reserved: Spent,
    input: u64,
    output: u64,
    price: Option<Price>,
    outcome: Outcome,
}

impl Reservation {
    /// The longest answer that fits.
    pub(super) fn max_tokens(&self) -> u32 {
        u32::try_from(self.output).unwrap_or(u32::MAX)
    }

    /// The call goes out.
    pub(super) fn sent(&mut self) {
        self.outcome = Outcome::Sent { output: 0 };
    }

    /// Something came back.
    pub(super) fn received(&mut self, bytes: usize) {
        if let Outcome::Sent { output } = &mut self.outcome {
            *output = output.saturating_add((bytes as u64).div_ceil(BYTES_PER_TOKEN));
        }
    }

    /// The call failed: it costs nothing if the provider never took it on, and a step if it was the caller's fault.
    pub(super) fn failed(&mut self, code: ModelFailureCode) {
        self.outcome = match (code, self.outcome) {
            (ModelFailureCode::Rejected | ModelFailureCode::ContextTooLong, _) => Outcome::Rejected,
            // Words came before it broke: the provider counts them, and so do we.
            (_, Outcome::Sent { output: 1.. }) => self.outcome,
            _ => Outcome::Unsent,
        };
    }

    /// The call was answered; returns what it took. Servers that do not count get the estimate.
    pub(super) fn answered(&mut self, usage: ModelUsage) -> (ModelUsage, Option<Money>) {
        let counted = usage.input > 0 || usage.output > 0;
        let usage = if counted { usage } else { self.guess() };
        self.outcome = Outcome::Answered(usage);
        (usage, self.price.map(|price| price.of(&usage)))
    }

    fn guess(&self) -> ModelUsage {
        let output = match self.outcome {
            Outcome::Sent { output } => output,
            _ => 0,
        };
        ModelUsage { input: self.input, output, ..ModelUsage::default() }
    }

    fn charge(&self) -> Spent {
        match self.outcome {
            Outcome::Unsent => Spent::default(),
            Outcome::Rejected => Spent { steps: 1, ..Spent::default() },
            Outcome::Sent { .. } => cost(&self.guess(), self.price),
            Outcome::Answered(usage) => cost(&usage, self.price),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let charge = self.charge();
        let mut account = self.budget.account();
        account.reserved = account.reserved.minus(self.reserved);
        account.spent = account.spent.plus(charge);
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

fn refusal(what: &str) -> ModelFailure {
    ModelFailure { code: ModelFailureCode::Budget, message: format!("the job's budget of {what} is used up") }
}

/// Tokens that a call takes, erring high.
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
    let forms = (call.messages.len() + call.tools.len() + 1) as u64;
    (bytes as u64).div_ceil(BYTES_PER_TOKEN) + pictures * PICTURE_TOKENS + forms * MESSAGE_TOKENS
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;

//! Words of a scripted model, through a real gateway.

use std::sync::Arc;

use async_trait::async_trait;
use sandyard_explain::facts::{FileDepth, FileFacts, FileRole, SymbolFact};
use sandyard_protocol::{ContextPart, JournalEntry, ModelUsage, StopReason};
use tokio::sync::mpsc;

use super::*;
use crate::gateways::model::{
    BudgetLimits, KeptAnswer, Ledger, LedgerError, ModelBudget, ModelConfig, ModelGatewayParts, ModelReport,
    Models, Money, OutgoingCall, Spent, recording_of,
};

/// A ledger that keeps nothing.
#[derive(Debug)]
struct NoLedger;

#[async_trait]
impl Ledger for NoLedger {
    async fn kept(&self, _number: u64) -> Result<Option<(u64, KeptAnswer)>, LedgerError> {
        Ok(None)
    }

    async fn keep(&self, _: JournalEntry, _: Spent, _: Option<Money>) -> Result<u64, LedgerError> {
        Ok(0)
    }

    async fn keep_packing(&self, _: &[ContextPart]) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn record_outgoing(&self, _call: OutgoingCall) -> Result<(), LedgerError> {
        Ok(())
    }
}

/// A gateway whose model gives these answers, and its reports.
fn gateway(answers: &[&str], limits: BudgetLimits) -> (Arc<ModelGateway>, mpsc::Receiver<ModelReport>) {
    let answer = |text: &&str| {
        let usage = ModelUsage { input: 10, output: 10, ..ModelUsage::default() };
        vec![ModelEvent::Text { text: (*text).to_owned() }, ModelEvent::Done { stop: StopReason::End, usage }]
    };
    let recording =
        recording_of("test/words", NARRATION_SYSTEM, &[], answers.iter().map(answer).collect()).unwrap();
    let mut config = ModelConfig { default: "replay:words".parse().ok(), ..ModelConfig::default() };
    config.recordings.insert("words".to_owned(), recording);
    let model = Models::new(&config).unwrap().find(None).unwrap();
    let (reports, told) = mpsc::channel(64);
    let gateway = ModelGateway::new(ModelGatewayParts {
        models: vec![model],
        budget: ModelBudget::new(limits, Spent::default()),
        ledger: Arc::new(NoLedger),
        recorder: None,
        reports,
    });
    (gateway, told)
}

fn facts() -> ProjectFacts {
    let symbol = SymbolFact {
        name: "load".to_owned(),
        kind: "function".to_owned(),
        line: 3,
        last_line: 4,
        public: true,
        doc: None,
    };
    let file = FileFacts {
        path: "shop/store.py".to_owned(),
        language: "Python".to_owned(),
        lines: 60,
        role: FileRole::Source,
        depth: FileDepth::Deep,
        doc: None,
        symbols: vec![symbol],
        hash: 0,
    };
    ProjectFacts { files: vec![file], ..ProjectFacts::default() }
}

fn claims(pairs: &[(&str, &str)]) -> String {
    let claims: Vec<_> = pairs
        .iter()
        .map(|(text, path)| serde_json::json!({ "text": text, "citations": [{ "path": path, "symbol": "load" }] }))
        .collect();
    serde_json::json!({ "claims": claims }).to_string()
}

fn texts(narration: &Narration) -> Vec<&str> {
    narration.verified.iter().map(|claim| claim.text.as_str()).collect()
}

#[tokio::test]
async fn a_claim_without_proof_is_asked_for_again_and_then_dropped() {
    let first = claims(&[
        ("`load` reads the store.", "shop/store.py"),
        ("It talks to Kafka.", "shop/kafka.py"),
        ("It pays.", "shop/pay.py"),
    ]);
    let second = claims(&[("The store is one file.", "shop/store.py"), ("It pays.", "shop/pay.py")]);
    let (gateway, mut told) = gateway(&[&first, &second], BudgetLimits::default());
    let narration = ask(&gateway, "facts", &facts()).await.unwrap();
    assert_eq!(texts(&narration), ["`load` reads the store.", "The store is one file."]);
    assert_eq!(narration.dropped, 1);
    let mut calls = 0;
    while let Ok(report) = told.try_recv() {
        calls += side_changes(report).iter().filter(|change| matches!(change, Change::Spent(_))).count();
    }
    assert_eq!(calls, 2, "both calls are charged");
}

#[tokio::test]
async fn good_claims_need_one_call_and_bad_answers_leave_nothing() {
    let good = claims(&[("`load` reads.", "shop/store.py")]);
    let (one, _told) = gateway(&[&good], BudgetLimits::default());
    assert_eq!(texts(&ask(&one, "facts", &facts()).await.unwrap()), ["`load` reads."]);
    let (useless, _told) = gateway(&["I can't.", "Really not."], BudgetLimits::default());
    assert!(ask(&useless, "facts", &facts()).await.is_none());
    let (repaired, _told) = gateway(&["Sure!", &good], BudgetLimits::default());
    assert_eq!(texts(&ask(&repaired, "facts", &facts()).await.unwrap()), ["`load` reads."]);
}

#[tokio::test]
async fn a_job_without_budget_gets_no_words() {
    let good = claims(&[("`load` reads.", "shop/store.py")]);
    let spent = BudgetLimits { steps: Some(0), ..BudgetLimits::default() };
    let (gateway, _told) = gateway(&[&good], spent);
    assert!(ask(&gateway, "facts", &facts()).await.is_none());
}

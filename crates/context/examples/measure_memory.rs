//! Measures recall for `bench/memory.py`, and for learning weights. The model is the shipped one unless `--model` names a file, or `none`.
//!
//! `measure_memory set FILE.jsonl [--model FILE] [--split test|dev] [NAME=VALUE]...`
//! :   Lines with `text` (and `path`, `name`) are chunks; lines with `query`, `answers` (numbers of chunks, from 0) and `split` are questions. Prints
//!     hit@1, hit@5, hit@10, MRR and NDCG@10 as JSON. Several values separated by commas are all tried.
//!
//! `measure_memory terms TEXT`
//! :   Prints the terms of a text.
//!
//! `measure_memory chunks FILE`
//! :   Prints the chunks of a file.
//!
//! `measure_memory ask FOLDER INDEX --queries FILE [--model FILE] [--count N] [NAME=VALUE]...`
//! :   Prints the passages for each line of a file as one line of JSON.
//!
//! `measure_memory scale FOLDER INDEX [--model FILE] [--queries FILE]`
//! :   Indexes a folder and asks each line of a file. Prints times, sizes and memory as JSON.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sandyard_context::chunk::{Chunk, ChunkKind};
use sandyard_context::index::{LexicalSettings, MemoryIndex, SourceText};
use sandyard_context::recall::{FusionSettings, RecallQuestion};
use sandyard_context::{EmbeddingModel, FolderReader, recall, sync};
use sandyard_memory::{RecallScope, SourceId, SourceOrigin, SourceReader, SourceRecord};
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn Error>>;

#[expect(clippy::print_stdout, reason = "the result is read by the benchmark")]
fn main() -> Outcome {
    let arguments = Arguments::read(std::env::args().skip(1));
    match arguments.plain.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["set", file] => measure_set(file, &arguments),
        ["scale", folder, index] => {
            println!("{}", measure_scale(Path::new(folder), Path::new(index), &arguments)?);
            Ok(())
        }
        ["ask", folder, index] => ask(Path::new(folder), Path::new(index), &arguments),
        ["terms", text] => {
            println!("{}", json!(sandyard_memory::terms::terms(text)));
            Ok(())
        }
        ["chunks", file] => {
            let text = std::fs::read_to_string(file)?;
            for chunk in sandyard_context::chunk::chunks(file, &text) {
                println!(
                    "{:?} {:?} {}-{} {}",
                    chunk.kind, chunk.bytes, chunk.first_line, chunk.last_line, chunk.name
                );
            }
            Ok(())
        }
        _ => Err("see the head of this file".into()),
    }
}

/// What the command line says.
#[derive(Default)]
struct Arguments {
    plain: Vec<String>,
    flags: BTreeMap<String, String>,
    /// Values to try for each setting.
    settings: Vec<(String, Vec<f32>)>,
}

impl Arguments {
    fn read(words: impl Iterator<Item = String>) -> Self {
        let mut arguments = Self::default();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            if let Some(flag) = word.strip_prefix("--") {
                arguments.flags.insert(flag.to_owned(), words.next().unwrap_or_default());
            } else if let Some((name, values)) = word.split_once('=') {
                let values = values.split(',').filter_map(|value| value.parse().ok()).collect();
                arguments.settings.push((name.to_owned(), values));
            } else {
                arguments.plain.push(word);
            }
        }
        arguments
    }

    fn model(&self) -> Result<Option<Arc<EmbeddingModel>>, Box<dyn Error>> {
        Ok(match self.flags.get("model").map(String::as_str) {
            Some("none") => None,
            Some(file) => Some(Arc::new(EmbeddingModel::read(std::fs::read(file)?)?)),
            None => Some(Arc::new(EmbeddingModel::shipped()?)),
        })
    }

    /// Every combination of the values.
    fn combinations(&self) -> Vec<Vec<(String, f32)>> {
        let mut combinations = vec![Vec::new()];
        for (name, values) in &self.settings {
            combinations = combinations
                .into_iter()
                .flat_map(|before| {
                    values.iter().map(move |&value| {
                        let mut with = before.clone();
                        with.push((name.clone(), value));
                        with
                    })
                })
                .collect();
        }
        combinations
    }
}

fn settings(values: &[(String, f32)]) -> Result<(LexicalSettings, FusionSettings), String> {
    let (mut lexical, mut fusion) = (LexicalSettings::default(), FusionSettings::default());
    for (name, value) in values {
        if name == "reserved" {
            fusion.reserved = *value as usize;
            continue;
        }
        let place = match name.as_str() {
            "name_weight" => &mut lexical.name_weight,
            "path_weight" => &mut lexical.path_weight,
            "saturation" => &mut lexical.saturation,
            "length_penalty" => &mut lexical.length_penalty,
            "usual_words" => &mut lexical.usual_words,
            "lexical" => &mut fusion.lexical,
            "semantic" => &mut fusion.semantic,
            "pair_weight" => &mut fusion.pair_weight,
            "definition_bonus" => &mut fusion.definition_bonus,
            "file_bonus" => &mut fusion.file_bonus,
            "test_penalty" => &mut fusion.test_penalty,
            "repetition_penalty" => &mut fusion.repetition_penalty,
            "recency_bonus" => &mut fusion.recency_bonus,
            _ => return Err(format!("no setting `{name}`")),
        };
        *place = *value;
    }
    Ok((lexical, fusion))
}

/// Chunks of a set, kept as sources.
struct SetTexts(Vec<(String, String, String)>);

impl SourceReader for SetTexts {
    fn read(&self, source: &SourceRecord) -> Option<Vec<u8>> {
        self.0.get(source.id.number as usize).map(|(_, _, text)| text.clone().into_bytes())
    }
}

#[expect(clippy::print_stdout, reason = "the result is read by the benchmark")]
fn measure_set(file: &str, arguments: &Arguments) -> Outcome {
    let mut texts = Vec::new();
    let mut questions = Vec::new();
    let split = arguments.flags.get("split");
    for line in std::fs::read_to_string(file)?.lines() {
        let value: Value = serde_json::from_str(line)?;
        let text = |name: &str| value[name].as_str().unwrap_or("").to_owned();
        if value["text"].is_string() {
            texts.push((text("path"), text("name"), text("text")));
        } else if split.is_none_or(|split| *split == text("split")) {
            let answers: Vec<u64> =
                value["answers"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
            questions.push((text("query"), answers));
        }
    }
    let kept = SetTexts(texts);
    let model = arguments.model()?;
    let mut made: Option<(LexicalSettings, tempfile::TempDir, MemoryIndex)> = None;
    for values in arguments.combinations() {
        let (lexical, fusion) = settings(&values)?;
        if made.as_ref().is_none_or(|(before, ..)| *before != lexical) {
            drop(made.take());
            let folder = tempfile::tempdir()?;
            let (mut index, _) = MemoryIndex::open(folder.path(), lexical, model.clone())?;
            add_set(&mut index, &kept)?;
            made = Some((lexical, folder, index));
        }
        let Some((_, _, index)) = &made else { continue };
        let figures = ask_all(index, &kept, &questions, &fusion);
        let named: BTreeMap<_, _> = values.into_iter().collect();
        println!("{}", json!({ "settings": named, "figures": figures }));
    }
    Ok(())
}

fn add_set(index: &mut MemoryIndex, kept: &SetTexts) -> Outcome {
    for (number, (path, name, text)) in (0..).zip(&kept.0) {
        let id = SourceId { number, part: 0 };
        let source = SourceText { id, origin: SourceOrigin::File, path, at_ms: 0, bytes: text.as_bytes() };
        let last_line = text.lines().count().max(1) as u32;
        let chunk = Chunk {
            bytes: 0..text.len(),
            first_line: 1,
            last_line,
            kind: ChunkKind::Definition,
            name: name.clone(),
            searched: None,
        };
        index.add_cut(source, |_| vec![chunk])?;
    }
    Ok(())
}

fn ask_all(
    index: &MemoryIndex,
    kept: &SetTexts,
    questions: &[(String, Vec<u64>)],
    fusion: &FusionSettings,
) -> Value {
    let mut hits = [0u32; 3];
    let (mut reciprocal, mut gain) = (0f64, 0f64);
    for (query, answers) in questions {
        let question = RecallQuestion { text: query, count: 10, scope: RecallScope::default() };
        let found = recall(index, kept, &question, fusion);
        let ranks: Vec<usize> = found
            .passages
            .iter()
            .enumerate()
            .filter(|(_, passage)| answers.contains(&passage.place.source.id.number))
            .map(|(rank, _)| rank + 1)
            .collect();
        if let Some(&best) = ranks.first() {
            reciprocal += 1.0 / best as f64;
            for (hit, depth) in hits.iter_mut().zip([1, 5, 10]) {
                *hit += u32::from(best <= depth);
            }
        }
        let ideal: f64 = (1..=answers.len().min(10)).map(|rank| 1.0 / (rank as f64 + 1.0).log2()).sum();
        gain += ranks.iter().map(|&rank| 1.0 / (rank as f64 + 1.0).log2()).sum::<f64>() / ideal.max(1.0);
    }
    let count = questions.len().max(1) as f64;
    let share = |value: f64| (value / count * 10_000.0).round() / 10_000.0;
    let hits = hits.map(|hit| share(f64::from(hit)));
    json!({ "questions": questions.len(), "hit@1": hits[0], "hit@5": hits[1], "hit@10": hits[2], "mrr": share(reciprocal), "ndcg@10": share(gain) })
}

fn measure_scale(folder: &Path, index_folder: &Path, arguments: &Arguments) -> Result<Value, Box<dyn Error>> {
    let model = arguments.model()?;
    let started = Instant::now();
    let (mut index, opening) = MemoryIndex::open(index_folder, LexicalSettings::default(), model)?;
    let open_ms = started.elapsed().as_secs_f64() * 1000.0;
    let started = Instant::now();
    let processor_before = processor_ms();
    let synced = sync(&mut index, folder, |_, _| {})?;
    index.flush()?;
    let sync_s = started.elapsed().as_secs_f64();
    let sync_processor_s = (processor_ms() - processor_before) / 1000.0;
    let ingest_peak = memory_kib("VmHWM");
    let reader = FolderReader::new(folder);
    let mut times = Vec::new();
    let mut processor = Vec::new();
    let queries =
        arguments.flags.get("queries").map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    for query in queries.lines().filter(|line| !line.is_empty()) {
        let question = RecallQuestion { text: query, count: 10, scope: RecallScope::default() };
        let (started, processor_before) = (Instant::now(), processor_ms());
        let answer = recall(&index, &reader, &question, &FusionSettings::default());
        times.push(started.elapsed().as_secs_f64() * 1000.0);
        processor.push(processor_ms() - processor_before);
        std::hint::black_box(answer);
    }
    let spread = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)))
        };
        json!({ "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": times.last(), "count": times.len() })
    };
    let started = Instant::now();
    let id = SourceId { number: 1, part: 0 };
    let text = "one more chunk about zyzzyva beetles";
    index.add(SourceText { id, origin: SourceOrigin::Note, path: "", at_ms: 0, bytes: text.as_bytes() })?;
    let question = RecallQuestion { text: "zyzzyva", count: 1, scope: RecallScope::default() };
    let found = recall(&index, &OneText(text), &question, &FusionSettings::default());
    let one_more_ms = started.elapsed().as_secs_f64() * 1000.0;
    Ok(json!({
        "sync": synced, "statistics": index.statistics(), "dropped": opening.dropped.len(),
        "open_ms": open_ms, "sync_s": sync_s,
        "sync_processor_s": sync_processor_s,
        "recall_ms": spread(times), "recall_processor_ms": spread(processor),
        "one_more_ms": one_more_ms, "one_more_found": found.passages.len(),
        "ingest_peak_kib": ingest_peak, "resident_kib": memory_kib("VmRSS"),
    }))
}

#[expect(clippy::print_stdout, reason = "the result is read by the benchmark")]
fn ask(folder: &Path, index_folder: &Path, arguments: &Arguments) -> Outcome {
    let values: Vec<(String, f32)> = arguments
        .settings
        .iter()
        .filter_map(|(name, values)| Some((name.clone(), *values.first()?)))
        .collect();
    let (lexical, fusion) = settings(&values)?;
    let (mut index, _) = MemoryIndex::open(index_folder, lexical, arguments.model()?)?;
    sync(&mut index, folder, |_, _| {})?;
    index.flush()?;
    let reader = FolderReader::new(folder);
    let count = arguments.flags.get("count").and_then(|count| count.parse().ok()).unwrap_or(10);
    let file = arguments.flags.get("queries").ok_or("no --queries")?;
    for query in std::fs::read_to_string(file)?.lines() {
        let question = RecallQuestion { text: query, count, scope: RecallScope::default() };
        let answer = recall(&index, &reader, &question, &fusion);
        println!(
            "{}",
            json!({ "query": query, "unverified": answer.unverified, "passages": answer.passages })
        );
    }
    Ok(())
}

/// Processor time of this process, which other programs on the machine don't change.
fn processor_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds: f64 =
        text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0);
    nanoseconds / 1e6
}

struct OneText(&'static str);

impl SourceReader for OneText {
    fn read(&self, _: &SourceRecord) -> Option<Vec<u8>> {
        Some(self.0.as_bytes().to_vec())
    }
}

/// A figure of `/proc/self/status`.
fn memory_kib(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
